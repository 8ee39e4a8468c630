printf 'echo text\n' > t
chmod +x t
./t
cp /bin/busybox n
chmod 600 n
if ./n 2> said; then exit 1; fi
! grep mounts said
printf '#!/none\n' > s
chmod +x s
./s 2> said
! grep mounts said
PATH=/none:/tmp:$PATH true
