# A server whose files become ready when it is told so, by FIFOs. libfuse's own example, by an adapter too, is in examples.sh.
cc -O1 -Wall '@programs@/unready.c' -o unready
serve() {
    rm -f x.in x.out
    mkfifo x.in x.out
    run "type=fuse,\"command='@telling@' %f <> $PWD/x.in 1<> $PWD/x.out\"" "python3 '@programs@/telling.py' $1 @$PWD/x $M $PWD/unready"
}
for case in ready other_bits several not_asked edge unready; do
    serve $case || { echo $case; exit 1; }
done
# The server dies: who waits is told, as behind the kernel.
serve gone 2> said || { cat said; exit 1; }
grep -q 'cannot be used any more' said
# Both are killed: nobody tells them.
serve gone_with_its_guardian || { echo with its guardian; exit 1; }
