# libfuse's own.
: > config.h
for name in hello hello_ll passthrough passthrough_fh passthrough_ll notify_inval_entry notify_inval_inode invalidate_path notify_store_retrieve poll; do
    cc -O1 -DHAVE_COPY_FILE_RANGE -DHAVE_FSTATAT -DHAVE_POSIX_FALLOCATE -DHAVE_UTIMENSAT -I. \
        '@examples@'/$name.c -o $name $(pkg-config --cflags --libs fuse3) -lpthread 2> said || { cat said; exit 1; }
done
for name in hello hello_ll; do
    run "type=fuse,\"command=$PWD/$name -f %m\"" 'cat $M/hello'
done > seen
test "$(tr '\n' ' ' < seen)" = 'Hello World! Hello World! '
for name in passthrough passthrough_fh passthrough_ll; do
    run "type=fuse,\"command=$PWD/$name -f %m\"" '
        work=$M$PWD/work; mkdir $work; cp -r tree $work/; diff -r tree $work/tree; mv $work/tree/d/f1 $work/one
        echo more >> $work/one; cat $work/one; rm -r $work/tree
    ' > seen
    test "$(tr '\n' ' ' < seen) $(ls work)" = '1 more  one'
    rm -r work
done
# What they tell of is seen, though it was to be believed for long.
run "type=fuse,\"command=$PWD/notify_inval_entry -f --update-interval=1 --timeout=1000 %m\"" '
    name=$(ls $M); until [ "$(ls $M)" != "$name" ]; do sleep .05; done; test ! -e $M/$name
'
for name in notify_inval_inode invalidate_path; do
    run "type=fuse,\"command=$PWD/$name -f --update-interval=1 %m\"" '
        file=$M/$(ls $M | head -n 1); text=$(cat $file); until [ "$(cat $file)" != "$text" ]; do sleep .05; done
    '
done
# It ends itself where what it stores does not come back as it is.
run "type=fuse,\"command=$PWD/notify_store_retrieve -f --update-interval=1 %m\"" '
    file=$M/$(ls $M)
    for n in 1 2 3; do
        text=$(cat $file)
        while now=$(cat $file) && test "$now" = "$text"; do sleep .05; done
        test -n "$now"
    done
'
# Whoever waits for its files finds something in each that is ready, and else nothing.
sed 's/<\(lib\)*fuse_config.h>/<errno.h>/' '@examples@'/poll_client.c > poll_client.c
cc -O1 poll_client.c -o poll_client
for way in '' ,way=adapter; do
    run "type=fuse,\"command=$PWD/poll -f %m\"$way" "cd $M; $PWD/poll_client" > seen
    test $(wc -l < seen) = 16 && test $(grep -c '[0-9A-F]:[0-9]' seen) = 16 && ! grep ':00' seen
done
