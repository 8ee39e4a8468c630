trap 'echo trapped; rm -f lock' EXIT
touch lock
(
    trap 'echo got TERM > term; exit 3' TERM
    echo ready > ready
    while :; do sleep 0.01; done
) &
p=$!
until [ -s ready ]; do sleep 0.01; done
kill -TERM $p
wait $p
echo $?
cat term
mkfifo pipe
(echo through > pipe) &
read -r l < pipe
echo $l
wait
cat pipe > got &
echo more > pipe
wait
cat got
coproc cat
echo co >&${COPROC[1]}
read -r c <&${COPROC[0]}
echo $c
kill $COPROC_PID
(exit 7) > e
echo $?
false > e || echo no
ls missing > e 2> err
cat err
nosuch > e 2>> err
test -s err && echo said
