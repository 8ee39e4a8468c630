set -e
cd @place@
export program=@program@ culvert=@culvert@ options='@options@' original='@original@' ways='@ways@' steps=@steps@ mounter=@mounter@
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
    # Where everybody may read it, and run by what is there for everybody.
    cp $program bind_random.py
    program=$PWD/bind_random.py
    python=python3
    as() { "$@"; }
    own=allow_other,
    if [ $mounter != 0 ]; then
        mknod fuse c 10 229
        chmod 666 fuse
        mount --bind fuse /dev/fuse
        as() { setpriv --reuid=$mounter --regid=$mounter --clear-groups -- "$@"; }
        python=/usr/bin/python3 own= never=$never,no-allow-other
    fi
    random() { as "$@" $python $program $seed $steps $PWD/$name/m $users > $name.out; }
    for seed in 1 2; do
        for users in @users@; do
            for way in $ways; do
                name=$way$seed
                mkdir -p $name/s $name/m
                chown $mounter $name/m
                python3 $program fill $name/s
                case $way in
                    original) as bindfs -o "$original,$never" $name/s $name/m; random; umount $name/m ;;
                    run) random $culvert run --mount type=bind,source=$PWD/$name/s,target=$PWD/$name/m,$options -- ;;
                    mount) as $culvert mount -t bind -o $own$options $PWD/$name/s $PWD/$name/m; random; as $culvert umount $PWD/$name/m ;;
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
