for uid in 0 65533; do
    for v in 2600 3000 3500 4000; do try "v $v" $uid $run sh -c "ulimit -v $v; exec sh -c '$write'"; done
    for d in 400 1000 1300; do
        try "d $d" $uid $run sh -c "ulimit -d $d; exec sh -c '$write'"
        try "command d $d" $uid sh -c "ulimit -d $d; exec $run sh -c '$write'"
    done
    try files $uid $run sh -c "ulimit -n 4; exec sh -c '$write'"
    printf '#!/bin/sh\n%s\n' "$write" > $W/script
    chmod 755 $W/script
    try script $uid $run sh -c "ulimit -v 3500; exec $W/script"
    try enough $uid $run sh -c "ulimit -v 200000; ulimit -d 100000; ulimit -n 64; exec sh -c '$write'"
done
