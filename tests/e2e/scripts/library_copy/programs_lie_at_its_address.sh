run sh -c 'grep -E "r-xp .*/culvert-libraries/" /proc/self/maps; :' > $W/maps
test "$(cut -d - -f 1 $W/maps)" = $(address) && echo there
# Each copy lies elsewhere, and no two runs of one user need two.
first=$(address)
run true
copy | wc -l
rm -r /run/mine/culvert-libraries
run true
test $first = $(address) || echo elsewhere
# No page of the library is relocated, and the program sees no variable of ours.
run sh -c 'cat /proc/self/smaps; :' |
    awk '/r-xp .*culvert-libraries/ { on = 1 } on && /^Anonymous/ { print $2, $3; exit }'
run env | grep -c _AUDIT
