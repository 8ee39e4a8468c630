@seen@ cd $M
mkdir -p d
echo one > d/f
chmod 000 d/f
chmod 311 d
stat -c %a d/f d
chmod 755 d
chmod 644 d/f
seen one cat d/f
rm -r d
ls
