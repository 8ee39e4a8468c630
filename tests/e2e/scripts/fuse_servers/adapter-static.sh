# libfuse's own examples, linked statically: one opens /dev/fuse, the other gets the device.
one() {
    cc -O1 -static -DHAVE_COPY_FILE_RANGE -I. '@examples@'/$1.c -o $1 $(pkg-config --cflags fuse3) \
        -l:libfuse3.a -lpthread -ldl 2> said || { cat said; exit 1; }
}
: > config.h
one hello
one passthrough
run "type=fuse,\"command=$PWD/hello %m\"" 'cat $M/hello'
run "type=fuse,\"command=$PWD/passthrough -f %f\"" '
    diff -r tree $M$PWD/tree; echo more >> $M$PWD/tree/file; cat tree/file; mv $M$PWD/tree/big $M$PWD/tree/moved
' > seen
test "$(tr '\n' ' ' < seen)" = 'hello more '
test -e tree/moved
