seq 1000 > a
chmod 640 a
touch -d '2011-12-13 14:15:16.123456789' a
cp a b
cp -p a c
stat -c '%n %a %s' a b
stat -c '%n %a %y' a c
mkdir d
cp a c d
cp -a d e
cp -r d/. f
cp -l a hard
cp -s $M/a soft
stat -c '%h %n' a hard
readlink soft
cat soft | md5sum
ln hard hard2
ln -s d/a link
ln -sf d/c link
ln -s nowhere dangling
ln -sfn d dir
cp -a link dangling dir hard2 d
ls d
cp --parents d/a e
cp -u a b
cp --backup=numbered a b
ls b*
cp --attributes-only --preserve=all a blank
stat -c '%a %y' blank
cp -n a b
cp -f a readonly
chmod 444 readonly
cp --remove-destination b readonly
cp --sparse=always a sparse
cmp a sparse
cp --reflink=auto a ref
cmp a ref
seq 60000 > large
cp large larger
cmp large larger
cp /dev/null null
install -m 751 -D a i/j/k
install -d -m 700 i/l
stat -c '%a %n' i/j/k i/l
if cp a missing/x 2> err; then echo COPIED; fi
cat err
if cp -a d d/inside 2> err; then echo COPIED; fi
cat err
rm -rf d/inside
