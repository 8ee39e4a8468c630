cd $M
echo x > f
ln -s f l
ln -s ../culvert/f climbs
ln -s /etc abs
cat l climbs
test -d abs/
stat -c %F abs/.
mkdir -p a/b/c
cd a/b/c
cat ../../../l
/bin/pwd | sed 's/.*mounts//'
