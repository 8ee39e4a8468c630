mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm && cd / \
    && setpriv --reuid=@user@ --regid=@user@ --clear-groups \
        @culvert@ run --no-private --mount type=memory,size=1g,target=@target@ -- python3 @program@ @target@
