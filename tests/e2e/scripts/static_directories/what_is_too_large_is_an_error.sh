@make@
exec 5< .
@program@ . nothing /dev/fd/5/ new
echo new > new
ls new
busybox sh -c '/bin/ls | /usr/bin/wc -l'
rm *
@program@ .
