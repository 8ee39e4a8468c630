@tree@ cd d/sub
busybox env bash -c 'ls; echo text > made; cat ../one; pwd'
ls
busybox sh -c 'cat < two; exec /bin/ls ..'
busybox env busybox env bash -c 'ls; mkdir another; cd ..; ls'
ls
(
    cd /
    busybox ls -d .
)
pwd
