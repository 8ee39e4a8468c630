cd $M \
    && fio --name=a --ioengine=io_uring --rw=randrw --bs=4k --size=1M --iodepth=8 --verify=crc32c --do_verify=1 --filename=f --minimal > $W/fio 2>&1 || {
    cat $W/fio
    exit 1
}
cat f | wc -c
