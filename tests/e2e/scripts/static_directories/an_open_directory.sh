@tree@ exec 5< d 6< d/sub
busybox ls /dev/fd/5/ | busybox sort
busybox find /dev/fd/6/ | busybox sort
busybox cat /dev/fd/6/two
echo new > d/new
busybox ls /dev/fd/5/ | busybox sort
rm d/new
busybox ls /dev/fd/5/ | busybox sort
ls /dev/fd/5/
