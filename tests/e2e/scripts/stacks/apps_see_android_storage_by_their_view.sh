set -eu
cd @place@
exec 2>&1
for view in default read write; do mkdir -p $view; done
chmod 711 .
chown 1023:1023 source; chmod 770 source
printf 'com.one 10001 0 / default none\ncom.two 10002 0 / default none\n' > list
options=allow_other,uid=1023,gid=1023,fullwrite,packages=$PWD/list,nosuid,nodev,noexec,noatime
end() { for view in default read write; do @culvert@ umount --lazy $view 2> /dev/null || :; done; }
trap end EXIT
for view in default read write; do @culvert@ mount -t sdcard -o $options,view=$view source $view; done
# app USER GROUP COMMAND
app() { local user=$1 group=$2; shift 2; setpriv --reuid=$user --regid=$user --groups=$group sh -c "$*"; }
fails() { if "$@" > /dev/null 2>&1; then echo "works: $*"; exit 1; fi; }
shows() { local got; got=$(stat -c '%u %g %a' "$1"); [ "$got" = "$2" ] || { echo "$1: $got, not $2"; exit 1; }; }
shows default '0 1015 771'; shows read '0 9997 750'; shows write '0 9997 770'
app 10001 9997 "mkdir -p write/Android/data/com.one write/Pictures; echo mine > write/android/DATA/Com.One/note"
shows default/Android/data/com.one '10001 1015 771'
shows read/Android/data/com.one '10001 9997 750'
shows write/ANDROID/Data/COM.ONE/Note '10001 9997 660'
[ -e write/Android/data/.nomedia ]
# User B after user A: A may, B may not, A still may.
for turn in 1 2; do
    app 10001 1015 'cat default/Android/data/com.one/note' > /dev/null
    fails app 10002 10002 'cat default/Android/data/com.one/note'
    app 10001 10001 'cat default/Android/data/com.one/note' > /dev/null
    fails app 10003 10003 'ls write'
    app 10003 9997 'ls read' > /dev/null
    fails app 10003 9997 'touch read/Pictures/x'
done
app 10003 9997 'echo picture > write/Pictures/A.JPG; cat read/pictures/a.jpg' > /dev/null
app 10003 1015 'cat default/PICTURES/a.jpg' > /dev/null
fails app 10003 9997 'touch write/autorun.inf'
fails touch write/Android_Secure
fails ln -s x write/link
fails ln write/Pictures/A.JPG write/hard
chmod 600 write/Pictures/A.JPG; chown 5:5 write/Pictures/A.JPG; shows write/pictures/a.jpg '0 9997 660'
# Another list, another owner.
printf 'com.one 10009 0 / default none\n' > new; mv new list
sleep 1.1
shows default/Android/data/com.one '10009 1015 771'
fails app 10001 10001 'cat default/Android/data/com.one/note'
app 10009 10009 'cat default/Android/data/com.one/note' > /dev/null
for made in Pictures/A.JPG Android/data Android/data/.nomedia; do
    [ "$(stat -c '%u %g' source/$made)" = '1023 1023' ] || { stat source/$made; exit 1; }
done
echo as Android
