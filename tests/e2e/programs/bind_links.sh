# What is done to links that are shown as files, in the directory $1 of a mount.
cd "$1"
stat -c "%n %F %s" f rel up/sub up/chain d/up broken
find . -type l | sort
cat rel up/sub up/chain d/up
echo more >> rel
chmod 600 up/sub && stat -c %a up/sub
ln -s f new
rm rel
rm up/sub
rm broken
echo onto > onto
mv onto d/up
mv up/chain chain
cat chain
