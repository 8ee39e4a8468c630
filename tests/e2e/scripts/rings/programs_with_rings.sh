cd $M && qemu-img create -q -f qcow2 i 8M \
    && qemu-io -i io_uring -f qcow2 -c 'write -P 7 1M 2M' -c 'write -P 9 2M 64k' -c flush i > $W/told && qemu-io -i io_uring -f qcow2 -c 'read -P 7 1M 1M' -c 'read -P 9 2M 64k' -c 'read -P 7 2112k 900k' -c 'read -P 0 0 1M' i | grep -c -v 'ops; ' && qemu-img check -q i && qemu-img bench -i io_uring -c 200 -w -f qcow2 i > $W/told && qemu-img check -q i
