SECONDS=0
seen() {
    w=$1
    shift
    until [ "$("$@" 2>&1)" = "$w" ]; do [ $SECONDS -lt 100 ] || {
        echo "$* is not: $w, but: $("$@" 2>&1)"
        exit 1
    }; done
}
