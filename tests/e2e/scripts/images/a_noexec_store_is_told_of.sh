run true
images=$(echo /dev/shm/culvert-*/images)
mount -t tmpfs -o noexec,mode=0700 none $images || exit
run $IMAGES clean | sed 's/[1-9][0-9]* kB/some/g'
run $IMAGES clean | sed 's/[1-9][0-9]* kB/some/g'
$CULVERT doctor | grep -o 'copied: .* noexec' | sed "s,$images is,it is,"
