doctor() { $CULVERT doctor | grep -A 1 'library copy' | grep -v 'kernel mounts' | sed 's/  */ /g'; }
unset HOME XDG_CACHE_HOME
doctor
echo -- nowhere
(unset XDG_RUNTIME_DIR; doctor)
mkdir -m 700 /dev/shm/mine
(export XDG_RUNTIME_DIR=/dev/shm/mine HOME=/proc; doctor)
echo -- no room
mkdir /run/small
mount -t tmpfs -o mode=0700,size=1m none /run/small
(export XDG_RUNTIME_DIR=/run/small; doctor)
echo -- a filter
rm -r /run/mine/culvert-libraries
$FILTERED 265 $CULVERT doctor | grep 'library copy' | sed 's/  */ /g'
run true
$FILTERED 265 $CULVERT doctor | grep 'library copy' | sed 's/  */ /g'
