lies() {
    (export XDG_RUNTIME_DIR=$1 XDG_CACHE_HOME=$2
    run sh -c "sed -n 's|.* r-xp .* \(/.*\)/culvert-libraries/.*|\1|p' /proc/self/maps; cat $W/b/f" 2>&1)
}
mkdir -m 700 /dev/shm/mine '/run/a:b' '/run/a$LIB' /run/link.d /run/other /run/open /run/open/mine
chmod 777 /run/open
ln -s /run/link.d /run/link
chown 1234 /run/other
for place in /run/mine /dev/shm/mine '/run/a:b' '/run/a$LIB' /run/link /run/other /run/open/mine \
    /run/mine/../mine run/mine; do
    echo -- $place
    lies "$place" /proc/none
done
echo -- the cache, which is made with the base
rm -r /dev/shm/culvert-*
lies /dev/shm/mine /run/mine/cache
stat -c %a /run/mine/cache/culvert
echo -- "another user's home"
rm -r /dev/shm/culvert-*
mkdir /run/home
chown 1234 /run/home
(unset XDG_RUNTIME_DIR; HOME=/run/home; run cat $W/b/f; ls -A /run/home | wc -l)
