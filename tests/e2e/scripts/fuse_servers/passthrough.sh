echo hello > backing
run "type=fuse,\"command=python3 @server@ $PWD/backing %m\"" '
    cat $M/file; echo more >> $M/file; cat $M/file; wc -c < $M/file
    python3 -c "
import mmap
with open(\"$M/file\", \"r+b\") as file:
    mapping = mmap.mmap(file.fileno(), 0)
    mapping[0:5] = b\"HELLO\"
    mapping.close()"
' > seen
test "$(tr '\n' ' ' < seen)" = 'hello hello more 11 '
test "$(tr '\n' ' ' < backing)" = 'HELLO more '
