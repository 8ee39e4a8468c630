cd @target@ && head -c 4194304 /dev/urandom > @random@ \
    && for size in 1 100 4095 4096 4097 131072 1048575 1048576 1048577 4194304; do
        [ $size -lt 4000 ] && count=500 || count=$((4194304 / size))
        dd if=@random@ of=copy bs=$size count=$count oflag=direct status=none 2>&1 \
            || dd if=@random@ of=copy bs=$size count=$count status=none
        dd if=copy bs=$size status=none | cmp -n $((size * count)) - @random@ || exit 1
        rm copy
    done
