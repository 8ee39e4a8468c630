mkdir $S/d{1..1500} $D/again
chown 0:0 $S/d*
chmod 775 $S/d*
ulimit -n 1024
$C mount --allow-other --with idmap $S $T || exit 1
python3 @program@ $T $D/again || exit 77
cd $D/again
ls d* > /dev/null
setpriv --reuid=1000 --regid=1000 --groups 0 bash -c "for i in {1..1500}; do : > d\$i/made || exit; done" 2>&1 \
    | grep -o "denied"
stat -c "%u %g" d*/made | uniq -c | tr -s " "
cd /
umount $D/again
$C umount $T
