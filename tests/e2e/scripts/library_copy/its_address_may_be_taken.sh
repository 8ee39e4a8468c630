cc -shared -fPIC -O1 -o $W/occupier.so $OCCUPIER || exit
begin_run
given() {
    env "CULVERT_RUN=$(variable CULVERT_RUN)" "LD_AUDIT=$W/occupier.so:$(copy)" AT=$1 sh -c \
        "while read line; do echo \$line; done < /proc/self/maps; read line < $W/b/f; echo \$line" \
        > $W/said
    grep -E 'r-xp .*/culvert-libraries/' $W/said | grep -q "^$(address)-" && echo there || echo no
    grep -c '/culvert-libraries/' $W/said
    tail -n 1 $W/said
}
given $(printf '%x' $((0x$(address) + 0x7000000)))
given $(address)
end_run
