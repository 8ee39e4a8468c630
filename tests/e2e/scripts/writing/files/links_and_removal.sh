touch f
for i in 1 2 3 4 5; do ln f l$i; done
stat -c %h f
rm l1 l2
stat -c %h f
exec 3< f
rm f l3 l4
stat -c %h l5
ln -s l5 s
ln -P s s2
readlink s2
ln -L s hard
stat -c '%h %F' hard
rm s
readlink -f s2
realpath s2 --relative-to=$M
mkdir -p a/b/c/d
touch a/b/x
if rmdir a 2> err; then echo GONE; fi
cat err
rmdir -p a/b/c/d 2> /dev/null || ls a
rm -r a
ls -d a 2> /dev/null || echo gone
mkdir m
touch m/{1..200}
ls m | wc -l
rm m/1*
ls m | wc -l
rm -rf m
unlink s2
link l5 l6
ls
mkdir ro
touch ro/f
chmod 555 ro
rm -f ro/f 2> /dev/null || echo refused
chmod 755 ro
rm -rf ro
shred -n 1 -u l6
ls
mktemp -p . -u XXXX > /dev/null
t=$(mktemp -p .)
stat -c '%a %s' $t
rm $t
t=$(mktemp -d -p .)
stat -c %a $t
rmdir $t
