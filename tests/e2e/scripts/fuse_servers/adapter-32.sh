cat > server32.c <<'END'
@source@
END
cc -m32 -O1 -ffreestanding -fno-stack-protector -fno-pie -no-pie -nostdlib -static -o server32 server32.c
run "type=fuse,\"command=$PWD/server32 %m\"" 'ls $M; cat $M/file' > seen
test "$(tr '\n' ' ' < seen)" = 'file from 32 bits '
run "type=fuse,way=slots,\"command=$PWD/server32 %m\"" true 2> said && exit 1
grep -q 'a 32-bit program' said
