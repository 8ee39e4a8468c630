build 1000 $W/libp.so
settle
look() { run env LD_PRELOAD=$W/libp.so $IMAGES private libp.so; }
look > /dev/null
look
i=$(image)
echo writable
chmod 0600 $i
look
chmod 0400 $i
look
echo linked
ln $i /dev/shm/other
look
rm /dev/shm/other
look
echo symbolic
mv $i $i.there
ln -s $i.there $i
look
mv $i.there $i
look
echo another user
chown 65534 $i 2> /dev/null || echo cannot
look
chown $(id -u) $i 2> /dev/null
look
echo spoilt
chmod 0600 $i
tail -c 4096 /bin/true | dd of=$i bs=4096 conv=notrunc seek=$(($(stat -c %s $i) / 4096 - 1)) 2> /dev/null
chmod 0400 $i
look
