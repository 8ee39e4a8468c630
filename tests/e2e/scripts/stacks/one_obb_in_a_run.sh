set -eu
exec 2>&1
cd @target@
mkdir -p 0/Android/obb 10/Android/obb
mkdir 0/Android/obb/com.one
echo game > 0/Android/obb/com.one/main
[ "$(cat 10/Android/OBB/com.one/MAIN)" = game ]
[ 0/Android/obb/com.one/main -ef 10/Android/obb/com.one/main ]
[ "$(stat -c '%u %g' 10/Android/obb/com.one/main)" = '0 1009997' ]
(cd 10/Android/obb/com.one; echo patch >> main; sh -c 'echo more >> main'
    [ "$(/bin/pwd)" = @target@/10/Android/obb/com.one ] || /bin/pwd
    cd ..; [ "$(/bin/pwd)" = @target@/10/Android/obb ] || /bin/pwd)
[ "$(cat 0/Android/obb/com.one/main | tr '\n' ' ')" = 'game patch more ' ]
exec 5< 10/Android/obb/com.one/main
rm 0/Android/obb/com.one/main
[ "$(cat <&5 | wc -l)" = 3 ]
rmdir 10/Android/obb/com.one
[ "$(ls -A 0/Android/obb)" = .nomedia ]
[ "$(ls -A @source@/obb)" = .nomedia ]
echo as Android
