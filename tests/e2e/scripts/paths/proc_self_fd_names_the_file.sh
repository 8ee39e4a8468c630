cd $M
exec 7< hello.txt 8< dir/sub
readlink /proc/self/fd/7 /proc/self/fd/8 /dev/fd/7 /proc/self/cwd
cat /proc/self/fd/7
cat /dev/fd/7
ls /proc/self/fd/8/
cd dir/sub && pwd -P && readlink /proc/self/cwd && cd .. && pwd && /bin/pwd
exec 7<&-
readlink /proc/self/fd/7 || echo closed
