mkdir -p s/d/e
seq 3000 > s/f
seq 10 > s/d/g
ln s/f s/d/hard
ln -s ../f s/d/soft
truncate -s 300k s/sparse
mkfifo s/fifo
chmod 2750 s/d
touch -d @1111111111.25 s/f s/d/g
A=
if setfattr -n user.x -v 1 s/f 2> /dev/null; then A=A; fi
rsync -aOHX$A s/ t
diff -r --no-dereference s/d t/d
stat -c '%n %a %h %.9Y' t/f t/d/hard t/d/g
rsync -aOHX$A -i s/ t
echo change >> s/f
touch -d @1 s/f
rm s/d/g
rsync -aOHX -i --delete s/ t
cmp s/f t/f
rsync -aOS --inplace -i s/sparse t/
echo tail >> s/f
rsync -a --append-verify s/f t/f
cmp s/f t/f
rsync -a --link-dest=$M/t s/ u
stat -c %h u/d/soft
stat -c %h u/sparse
rsync -a --backup --suffix=.old --ignore-times s/f t/
ls t
rsync -rc --remove-source-files s/d/ moved
ls s/d moved
rsync -a --temp-dir=$M/d2 s/f t/ 2> /dev/null || echo no directory
rsync -a --partial --bwlimit=0 -W s/ v
diff -r s/f v/f
