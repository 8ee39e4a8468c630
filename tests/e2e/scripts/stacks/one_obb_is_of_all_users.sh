set -eu
cd @place@
exec 2>&1
mkdir storage
chmod 711 .
chown 1023:1023 source; chmod 770 source
printf 'com.one 10001 0 / default none\n' > list
trap '@culvert@ umount --lazy storage 2> /dev/null || :' EXIT
options=allow_other,uid=1023,gid=1023,fullwrite,multiuser,derivegid,view=write,packages=$PWD/list
@culvert@ mount -t sdcard -o $options source storage
# app USER GROUP COMMAND
app() { local user=$1 group=$2; shift 2; setpriv --reuid=$user --regid=$user --groups=$group sh -c "$*"; }
fails() { if "$@" > /dev/null 2>&1; then echo "works: $*"; exit 1; fi; }
shows() { local got; got=$(stat -c '%u %g %a' "$1"); [ "$got" = "$2" ] || { echo "$1: $got, not $2"; exit 1; }; }
gives() { local got; got=$(stat -c '%u %g' "source/$1"); [ "$got" = "$2" ] || { echo "$1: $got, not $2"; exit 1; }; }
mkdir storage/0 storage/10 storage/10/Android
app 10001 9997 'mkdir -p storage/0/Android/obb/com.one && echo game > storage/0/Android/obb/com.one/main'
fails ls storage/10/Android/obb
mkdir storage/10/Android/OBB
name=storage/10/Android/obb/com.one
[ "$(app 1010001 1009997 "cat $name/main")" = game ]
shows storage/0/Android/obb/com.one/main '10001 9997 660'
shows $name/main '1010001 1009997 660'
fails app 1010001 1009997 'ls storage/0'
[ storage/0/Android/obb/com.one/main -ef $name/MAIN ]
[ "$(cd $name && stat -L -c %i ..)" = "$(stat -c %i storage/10/Android/obb)" ]
[ "$(cd $name/.. && ls -A)" = "$(ls -A source/obb)" ]
app 1010001 1009997 "echo patch >> $name/main; mv $name/main $name/Moved"
# What one user has changed another sees after a second at most.
sleep 1.1
[ "$(app 10001 9997 'cat storage/0/Android/obb/com.one/moved' | tr '\n' ' ')" = 'game patch ' ]
[ "$(ls storage/0/Android/obb/com.one)" = Moved ]
rm -r storage/0/Android/obb/com.one
sleep 1.1
fails ls $name
[ "$(ls -A source/0/Android/obb source/10/Android/OBB | tr -d '\n')" = source/0/Android/obb:source/10/Android/OBB: ]
# Groups in the source, of what is made and of what is renamed.
app 10001 9997 'mkdir -p storage/0/Music storage/0/Android/data/com.one/cache; echo a > storage/0/Music/a.mp3'
app 10001 9997 'echo a > storage/0/Android/data/com.one/cache/a; echo a > storage/0/Android/data/com.one/a'
gives 0/Music '1023 1023'; gives 0/Music/a.mp3 '1023 1055'
gives 0/Android/data/com.one '1023 30001'
gives 0/Android/data/com.one/a '1023 30001'; gives 0/Android/data/com.one/cache/a '1023 40001'
gives obb '1059 1059'; gives obb/.nomedia '1059 1059'
app 10001 9997 'mv storage/0/Music/a.mp3 storage/0/Music/a.png; mkdir storage/0/Android/data/com.one/b'
gives 0/Music/a.png '1023 1057'
mkdir -p storage/10/Pictures; echo b > storage/10/Pictures/b.jpg
gives 10/Pictures '1001023 1001023'; gives 10/Pictures/b.jpg '1001023 1001057'
echo as Android
