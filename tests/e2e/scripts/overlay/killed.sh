set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mkdir -p t m
    mount -t tmpfs none t
    calls=linkat,unlinkat,mkdirat,symlinkat,fsync,fdatasync,ftruncate,fchmod,fchmodat,fchownat,utimensat
    calls=$calls,renameat2,copy_file_range,setxattr,fsetxattr,removexattr,fremovexattr,mknodat,pwrite64
    options=lowerdir=$PWD/t/lower,upperdir=$PWD/t/upper,workdir=$PWD/t/work
    run() { $culvert run --no-private --mount type=overlay,$options,target=$PWD/m -- "$@"; }
    # Kills `program` at each of these calls in turn, until it ends by itself; what it leaves is to be `whole`.
    each() {
        number=0
        while :; do
            number=$((number + 1))
            rm -rf t/lower t/upper t/work
            mkdir -p t/lower/d t/upper t/work
            head -c 100000 /dev/zero | tr "\0" o > t/lower/d/f; chmod 640 t/lower/d/f
            status=0
            strace -f -qq -o trace -e trace=$calls -e inject=$calls:signal=KILL:when=$number \
                $culvert run --no-private --mount type=overlay,$options,target=$PWD/m -- python3 -c "$program" > said 2>&1 || status=$?
            whole || { echo "$program: not whole at call $number"; tail -3 trace; cat said; ls -lR t; exit 1; }
            [ $status = 0 ] && break
            [ $number -lt 200 ] || { echo "$program: no end"; cat said; exit 1; }
        done
        [ $number -gt 5 ] || { echo "$program: only $number calls"; exit 1; }
        finally || { echo "$program: not done"; ls -lR t; exit 1; }
        [ -z "$(run ls $PWD/m/d > /dev/null; ls -A t/work/work)" ] || { echo left; exit 1; }
    }
    program="import os; f = os.open(\"$PWD/m/d/f\", os.O_WRONLY); exit(os.pwrite(f, b\"new\", 0) != 3)"
    whole() {
        run sh -c "stat -c %a $PWD/m/d/f; cat $PWD/m/d/f" > now
        [ "$(head -1 now)" = 640 ] && [ $(tail -n +2 now | wc -c) = 100000 ] &&
            [ -z "$(tail -n +2 now | tail -c +4 | tr -d o)" ]
    }
    finally() { [ -e t/upper/d/f ] && [ "$(tail -n +2 now | head -c 3)" = new ]; }
    each

    program="import os; os.rename(\"$PWD/m/d/f\", \"$PWD/m/d/g\")"
    whole() {
        run sh -c "cat $PWD/m/d/g 2> /dev/null || cat $PWD/m/d/f" > now
        [ $(wc -c < now) = 100000 ]
    }
    finally() { [ -c t/upper/d/f ] && [ "$(run ls $PWD/m/d)" = g ]; }
    each

    program="import os; os.unlink(\"$PWD/m/d/f\")"
    whole() { run ls $PWD/m/d > now; [ -z "$(cat now)" ] || [ "$(cat now)" = f ]; }
    finally() { [ -z "$(cat now)" ]; }
    each
    echo whole
'
