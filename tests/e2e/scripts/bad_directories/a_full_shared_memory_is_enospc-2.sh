mount -t tmpfs -o size=64m tmpfs /dev/shm && dd if=/dev/zero of=/dev/shm/full bs=1M 2> /dev/null
@culvert@ run --no-private --mount type=memory,target=@target@ -- bash -c 'echo x > @target@/x && cat @target@/x'
echo status $?
