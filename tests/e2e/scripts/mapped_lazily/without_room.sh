mount -t tmpfs -o size=16m,mode=1777 none /dev/shm && export CULVERT_LOG=@log@ \
    && exec @as_user@ @culvert@ run -v @source@:@target@:driven,descriptor=no -- @mapped_full@ @target@/file 24
