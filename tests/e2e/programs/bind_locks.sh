# Locks of a mount and of its source, each beside the other, in the directory $1 of a mount.
if [ "$1" = prepare ]; then
    echo one > $2/f
    exit
fi
cd "$1"
tries() { flock -n $1 echo "flock of $1" || echo "no flock of $1"; }
(flock -x 9; tries ../s/f) 9>> f
(flock -x 9; tries f) 9>> ../s/f
tries f
record='import fcntl, os, sys
held = open(sys.argv[1], "r+")
fcntl.lockf(held, fcntl.LOCK_EX)
if os.fork() == 0:
    try:
        fcntl.lockf(open(sys.argv[2], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("locked", sys.argv[2])
    except OSError as error:
        print("not locked", sys.argv[2], error.strerror)
    sys.stdout.flush()
    os._exit(0)
os.wait()'
python3 -c "$record" f ../s/f
python3 -c "$record" ../s/f f
