touch f
mkdir d
for m in 000 400 644 755 1777 2755 4755 7777; do
    chmod $m f d
    stat -c '%a %A %n' f d
done
chmod 644 f
chmod a+X,g-w,o= f
stat -c %a f
chmod u+s f
echo x >> f
stat -c %a f
chmod 2755 d
mkdir d/sub
stat -c %a d/sub
chmod 755 d d/sub
touch -m -d @1000000000.5 f
touch -a -d @1.25 f
stat -c '%.9X %.9Y' f
touch -r f g
stat -c %y g
ln -s f l
touch -h -d @5 l
stat -c %Y l f
mkdir made
touch -d @5 made
touch made/f
touch -d @5 made/f
truncate -s 9 made/f
[ made -nt l ] && [ made/f -nt l ] && echo later
touch -c missing
ls missing 2> /dev/null || echo not made
chown $(id -u):$(id -g) f
chgrp $(id -g) f
chown -h $(id -u) l
stat -c '%F %h %s %u %g' f
stat -f -c '%l' .
df . > /dev/null
du -b --apparent-size f
sync f .
getfattr -d f 2> /dev/null
test -r f -a -w f
test -x d
ls -l f | cut -c 1-10
