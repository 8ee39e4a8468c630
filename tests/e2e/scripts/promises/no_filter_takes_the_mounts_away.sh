@try@
ok=0
for call in $(seq 0 58) $(seq 61 110) $(seq 131 161) 186 200 201 217 218 228 $(seq 262 274) 302 303 307 309 317 318 319 332 334 437 439 448; do
    said=$(try $call 65533 $run @program@ $call sh -c "$write")
    case $said in *STRAYED*) echo "$said" ;; *': 0 y'*) ok=$((ok + 1)) ;; esac
done
[ $ok -gt 100 ] && echo done
