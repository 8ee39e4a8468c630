coproc driver { "$0" "$1"; }
read -r said <&"${driver[0]}"
echo "$said"
stat -c %s "$1/lines"
cmp "$1/lines" <(seq 1 20000) && tail -n 1 "$1/lines"
dd if="$1/lines" bs=1000 skip=3 count=1 status=none | cmp - <(seq 1 20000 | tail -c +3001 \
    | head -c 1000) \
    && echo part
cat "$1/count" "$1/count"
cp "$1/lines" copy && cmp copy "$1/lines" && rm copy && echo copied
