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
echo -- no home
mkdir /run/empty
cd /run/empty
for home in home '' /run/empty/home; do
    (unset XDG_RUNTIME_DIR XDG_CACHE_HOME; rm -r /dev/shm/culvert-*; HOME=$home run cat $W/b/f)
done
ls -A /run/empty
echo -- a user whom the namespace does not know
(export XDG_RUNTIME_DIR=/run/mine; unshare -U $CULVERT run --no-private -v $W/a:$W/b -- \
    sh -c 'grep -c /culvert-libraries/ /proc/self/maps')
echo -- others may write into the directory of the copies, but not reach it
mkdir -m 700 /run/wide
mkdir -m 777 /run/wide/culvert-libraries
chmod 777 /run/wide/culvert-libraries
lies /run/wide /proc/none
