echo text > $M/f
cat $M/f
chroot / cat $M/f
chroot / chroot /proc/self/root sh -c 'cat $M/f; cd $M && cat f'
python3 -c "@python@"
