mount="type=fuse,way=adapter,\"command=python3 '@server@' %f $PWD/log\""
# Large reads come in packets of at most 256 KiB, whatever the server says that it takes.
run "$mount" '
    python3 -c "
import os, struct
file = os.open(\"$M/big\", os.O_RDONLY)
data = os.read(file, 1000000)
assert data == struct.pack(\"<125000Q\", *range(125000)), len(data)"
    test $(cat $M/largest) -le $((256 << 10)); test $(cat $M/largest) -gt $((128 << 10))
    cat $M/huge > /dev/null 2> said && exit 1; grep -q "Input/output" said
    cat $M/twice; cat $M/retrieve; cat $M/twice
    # Of what the server does not answer an INTERRUPT is made when nobody waits for it any more.
    asked() { grep -cx "$1" log || :; }
    before=$(asked 1)
    stat $M/never 2> /dev/null & waits=$!
    until [ $(asked 1) -gt $before ]; do sleep .01; done
    kill $waits
    wait $waits && exit 1
    until [ $(asked 36) -gt 0 ]; do sleep .01; done
'
grep -q 'retrieved 77 2 4096 0' log
for name in short split; do
    run "$mount" "timeout 60 cat \$M/$name 2> said && exit 1; grep -qE 'connect|abort' said; cat \$M/big 2> said && exit 1; grep -q 'not connected' said"
done
