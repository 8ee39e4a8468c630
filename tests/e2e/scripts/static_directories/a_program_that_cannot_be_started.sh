@tree@ head -c 100 /usr/bin/busybox > broken
chmod +x broken
cd d
exec 5< .
../script
../broken 2> /dev/null || echo broken
ls
echo more > more
ls /dev/fd/5/
pwd
