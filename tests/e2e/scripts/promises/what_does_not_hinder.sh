for uid in 0 65533; do
    for mask in 777 700 077; do
        try "command $mask" $uid sh -c "umask $mask; exec $run sh -c '$write'"
        try "program $mask" $uid $run sh -c "umask $mask; sh -c '$write'"
    done
done
try proc 0 unshare -m $run sh -c "while umount -l /proc 2> /dev/null; do :; done; exec sh -c '$write'"
