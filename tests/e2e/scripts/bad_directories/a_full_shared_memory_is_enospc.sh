mount -t tmpfs -o size=64m tmpfs /dev/shm && {
    @culvert@ run --no-private --mount type=memory,size=1g,target=@target@ -- bash -c 'T=@target@; @inside@'
    echo status $?
}
