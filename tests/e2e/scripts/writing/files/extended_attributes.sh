touch f
setfattr -n user.one -v 1 f
setfattr -n user.two -v '"with \0 byte"' f
getfattr -d f | sort
setfattr -x user.one f
getfattr -d f | sort
if setfattr -x user.none f 2> err; then echo REMOVED; fi
cat err
mkdir d
setfattr -n user.dir -v yes d
getfattr --only-values -n user.dir d
cp -a f copy
getfattr -d copy
mv copy moved
getfattr -d moved
ln -s f l
getfattr -d l
if getfattr -h -n user.two l 2> err; then echo READ; fi
printf %01000d 0 > big
setfattr -n user.big -v "$(cat big)" f
getfattr --only-values -n user.big f | wc -c
tar --xattrs -cf t.tar f d
mkdir x
tar --xattrs -xf t.tar -C x
getfattr -d x/f | md5sum
rm t.tar
