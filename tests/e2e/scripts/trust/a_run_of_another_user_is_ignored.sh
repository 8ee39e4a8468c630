forged /dev/shm/open 755
forged /dev/shm/closed 700
ln -s /dev/shm/open /dev/shm/link
as 65534 mkfifo -m 666 /dev/shm/fifo
as 65534 mkdir -m 755 /dev/shm/fifos
as 65534 mkfifo -m 666 /dev/shm/fifos/mounts
for uid in 0 65533; do
    as $uid mkdir -m 700 /dev/shm/own-$uid
    as $uid mkfifo /dev/shm/own-$uid/mounts
    for run in open closed link fifo fifos own-$uid over fifo/over; do
        for way in run library doctor; do
            export CULVERT_RUN=/dev/shm/$run:-1:0
            case $way in
                run) as $uid timeout 20 $culvert run --no-private -v $evil:$W/none -- $look ;;
                library) as $uid env LD_AUDIT=$lib timeout 20 $look ;;
                doctor)
                    as $uid timeout 20 $culvert doctor > /dev/null
                    [ $? != 124 ] && echo real
                    ;;
            esac > $W/out 2> $W/err
            [ "$(cat $W/out)" = real ] || echo "$uid $run $way: $(cat $W/out $W/err)"
            [ $way = library ] \
                || [ $(grep -c 'CULVERT_RUN names /dev/shm/.*not t[rh].*ignored' $W/err) = 1 ] \
                || echo "$uid $run $way is not told: $(cat $W/err)"
            unset CULVERT_RUN
        done
    done
done
# What no version here has written.
[ $(env LD_AUDIT=$lib CULVERT_RUN=/dev/shm/open:-1,z1:0 $look 2>&1 | grep -c 'CULVERT_RUN says cannot be read') = 1 ] \
    || echo unreadable is not told
echo done
