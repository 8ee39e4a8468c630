for end in 'kill -TERM $driver_PID' 'kill -INT $driver_PID' 'umount "$1"'; do
    coproc driver { exec "$0" "$1"; }
    server=$driver_PID
    read -r said <&"${driver[0]}"
    cat "$1/count"
    eval "$end"
    wait "$server"
    echo "$said, ended with $?"
    mountpoint -q "$1" && echo "still mounted"
done
true
