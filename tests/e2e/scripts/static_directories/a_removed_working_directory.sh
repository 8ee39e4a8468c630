cd $M && mkdir gone && cd gone && rmdir ../gone && busybox ls . | busybox sort
busybox ls nothing 2>&1
ls .
echo $?
