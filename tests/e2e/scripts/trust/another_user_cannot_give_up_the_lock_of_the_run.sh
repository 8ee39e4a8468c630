cp @program@ $W/borrowed
chmod 755 $W/borrowed
$culvert run --no-private -v memory:$real -- bash -c "echo kept > $real/f
             setpriv --reuid=65533 --regid=65533 --clear-groups $W/borrowed unlock 2> /dev/null
             env -i $culvert run true; cat $real/f; ls /dev/shm/culvert-0 | grep -Evc 'sites|images'"
$culvert run true
ls /dev/shm/culvert-0 | grep -Evc 'sites|images'
