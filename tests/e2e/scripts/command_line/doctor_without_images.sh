# The command lies where it may be executed; no run directory does.
mount -t tmpfs none /mnt && cp "$CULVERT" "$CULVERT-full" "${CULVERT%/*}/libculvert.so" /mnt || exit
for place in /dev/shm /tmp; do
  mount -t tmpfs -o mode=1777,noexec none $place || exit
done
unset XDG_RUNTIME_DIR
cd /
/mnt/culvert doctor
exit 0
