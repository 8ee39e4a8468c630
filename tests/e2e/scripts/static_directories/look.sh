busybox find . -type f | busybox sort
busybox find . -type d | busybox sort
busybox find . -type l | busybox sort
busybox find . -type p
busybox cat one sub/two link sub/hard
busybox md5sum many
busybox stat -c '%s %Y' sub/two
busybox ls | busybox sort
busybox ls nothing
echo $?
