set -e
cd @place@
export program=@program@ culvert=@culvert@ options='@options@' ways='@ways@' steps=@steps@
case $options in
    hide-hard-links) export ONE_LINK=1 ;;
    # Ours loses set-group-ID of a directory by a chmod(2) of who is not in its group (bind.md).
    create-with-perms=*) export NO_SET_GROUP_ID=1 ;;
esac
# What bindfs lets the kernel remember of one user and one name it shows to others and under others.
export never=attr_timeout=0,entry_timeout=0,negative_timeout=0
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    chmod 755 target
    cd target
    random() { "$@" python3 $program $seed $steps $PWD/$name/m $users > $name.out; }
    for seed in 1 2; do
        for users in @users@; do
            for way in $ways; do
                name=$way$seed
                mkdir -p $name/s $name/m
                python3 $program fill $name/s
                case $way in
                    original) bindfs -o "$options,$never" $name/s $name/m; random; umount $name/m ;;
                    run) random $culvert run --mount type=bind,source=$PWD/$name/s,target=$PWD/$name/m,$options -- ;;
                    mount) $culvert mount -t bind -o allow_other,$options $name/s $name/m; random; $culvert umount $name/m ;;
                esac
                python3 $program state $PWD/$name/s >> $name.out
                rm -r $name
                # In a run others than root have no more rights than they have natively.
                case "$way $users" in "run 0 "*) continue ;; esac
                diff original$seed.out $name.out > difference || { echo "$options, $way, $users:"; head -20 difference; }
            done
        done
    done
    wc -l < original1.out | { read lines; [ $lines -gt $steps ] && echo compared; }
'
