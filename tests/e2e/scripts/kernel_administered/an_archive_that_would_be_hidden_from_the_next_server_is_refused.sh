mkdir $D/a
echo x > $D/a/f
tar cf $D/a/a.tar -C $D/a f
$C mount --restart $D/a/a.tar $D/a 2>&1 | grep -c "hides it"
$C mount $D/a/a.tar $D/a 2> /dev/null && ls $D/a
$C umount $D/a
