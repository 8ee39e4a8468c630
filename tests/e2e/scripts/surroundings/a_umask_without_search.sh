umask 0177
$B/bin/culvert run --mount type=memory,target=$W/m -- bash -c 'cd $W/m && mkdir d && stat -c %a d && chmod 700 d && cd d && echo ${PWD##*/}'
