set -eu
exec 2>&1
cd @target@
fails() { if "$@" > /dev/null 2>&1; then echo "works: $*"; exit 1; fi; }
shows() { local got; got=$(stat -c '%u %g %a' "$1"); [ "$got" = "$2" ] || { echo "$1: $got, not $2"; exit 1; }; }
echo com.one 10001 0 / default none > @source@/list
mkdir -p Android/data/com.one
echo note > Android/data/com.one/Note
shows . '0 9997 755'
shows ANDROID/data/COM.one '10001 9997 750'
shows android/data/com.one/note '10001 9997 640'
[ "$(cat Android/DATA/com.one/note)" = note ]
exec 5< Android/data/com.one/Note
[ "$(stat -L -c '%u %a' /proc/self/fd/5)" = '10001 640' ] || stat -L -c 'by descriptor: %u %a' /proc/self/fd/5
fails touch autorun.inf
fails ln -s a b
fails ln Android/data/com.one/Note hard
chmod 777 Android/data/com.one/Note; shows Android/data/com.one/note '10001 9997 640'
truncate -s 2 Android/data/com.one/NOTE
[ "$(cat Android/data/com.one/Note)" = no ]
mv Android/data/com.one Moved; shows moved/Note '0 9997 644'
echo as Android
