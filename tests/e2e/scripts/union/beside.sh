set -e
cd @place@
export program=@program@ culvert=@culvert@ policy='@policy@' steps=@steps@ MORE='@more@' modes='@modes@'
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    set -- $modes
    A=$1 B=$2 C=$3
    # Branches differ by size and by what is used.
    way() {
        mkdir -p $1/a $1/b $1/c $1/m
        mount -t tmpfs -o size=20m none $1/a
        mount -t tmpfs -o size=40m none $1/b
        mount -t tmpfs -o size=30m none $1/c
        head -c 9000000 /dev/zero > $1/b/.used
        head -c 3000000 /dev/zero > $1/c/.used
        touch -d @1 $1/b/.used $1/c/.used
        python3 $program fill $1/a $1/b $1/c
    }
    branches() { echo $PWD/$1/a=$A:$PWD/$1/b=$B:$PWD/$1/c=$C; }
    for seed in 1 2; do
        way original$seed; way run$seed; way mount$seed
        mergerfs -o minfreespace=0,$policy,use_ino,cache.attr=0,cache.entry=0 $(branches original$seed) $PWD/original$seed/m
        python3 $program $seed $steps original$seed/m original$seed/a original$seed/b original$seed/c > original$seed.out
        umount original$seed/m
        $culvert run -v $(branches run$seed):$PWD/run$seed/m:type=union,minfreespace=0,$policy -- \
            python3 $program $seed $steps run$seed/m > run$seed.out
        python3 $program 0 0 none run$seed/a run$seed/b run$seed/c >> run$seed.out
        $culvert mount -t union -o minfreespace=0,$policy $(branches mount$seed) mount$seed/m
        python3 $program $seed $steps mount$seed/m mount$seed/a mount$seed/b mount$seed/c > mount$seed.out
        $culvert umount mount$seed/m
        for way in original run mount; do sed -i "s|$PWD/$way$seed|PLACE|g" $way$seed.out; done
        for way in run mount; do
            diff original$seed.out $way$seed.out > difference || { echo "$policy, seed $seed, $way:"; head -20 difference; }
        done
    done
    wc -l < original1.out | { read lines; [ $lines -gt $steps ] && echo compared; }
'
