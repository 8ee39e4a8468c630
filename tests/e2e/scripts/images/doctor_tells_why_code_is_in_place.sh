: a filter refuses a call that making images takes, linkat
$FILTERED 265 $CULVERT doctor | grep 'rewritten code' | sed "s,/dev/shm/[^ ]*,it,"
$CULVERT doctor | grep 'rewritten code' | sed "s,/dev/shm/[^ ]*,it,"
: there is no room, not for one image
rm -rf /dev/shm/culvert-*/images
dd if=/dev/zero of=/dev/shm/fill bs=1M 2> /dev/null
truncate -s -128K /dev/shm/fill
$CULVERT doctor | grep 'rewritten code' | sed "s,/dev/shm/[^ ]*,it,"
