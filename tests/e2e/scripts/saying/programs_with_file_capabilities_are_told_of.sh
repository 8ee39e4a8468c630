cp $(command -v cat) $W/capable
setcap cap_net_raw+ep $W/capable || exit 77
as 65533 $culvert run --no-private -v $evil:$real -- bash -c "$W/capable $real/f; $W/capable $real/f; cat $real/f" 2>&1
as 65533 $culvert run --strict --no-private -v $evil:$real -- bash -c "$W/capable $real/f; echo \$?" 2>&1
