for kind in thread address; do
    cc -g -fsanitize=$kind -o $W/$kind $THREAD -lpthread 2> $W/error || { printf "file\nfile\nfile\n"; continue; }
    # Elsewhere each time.
    for round in 1 2 3; do
        rm -rf /run/mine/culvert-libraries
        run $W/$kind $W/b/f 2>&1
    done
done
