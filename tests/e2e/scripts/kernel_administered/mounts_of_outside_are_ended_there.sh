unshare -Urm true 2> /dev/null || exit 77
$C mount $S $T
unshare -Urm $C umount $T 2>&1 | grep -c "from outside"
$C umount $T
echo $?
