set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mkdir -p a b m
    mount -t tmpfs -o size=1m none a
    mount -t tmpfs -o size=8m none b
    calls=linkat,unlinkat,mkdirat,symlinkat,fsync,ftruncate,fchmod,utimensat,renameat2,pwrite64,setxattr
    source=$PWD/a:$PWD/b
    run() { $culvert run -v $source:$PWD/m:type=union,minfreespace=0,$options -- "$@"; }
    # Kills `program` at each of these calls in turn, until it ends by itself; what it leaves is to be `whole`.
    each() {
        number=0
        while :; do
            number=$((number + 1))
            rm -rf a/* b/* a/.[a-z]* b/.[a-z]*
            prepare
            status=0
            strace -f -qq -o trace -e trace=$calls -e inject=$calls:signal=KILL:when=$number \
                $culvert run -v $source:$PWD/m:type=union,minfreespace=0,$options -- python3 -c "$program" > said 2>&1 || status=$?
            whole || { echo "$options: not whole at call $number"; tail -3 trace; cat said; ls -lR a b; exit 1; }
            [ $status = 0 ] && break
            [ $number -lt 200 ] || { echo "$options: no end"; cat said; exit 1; }
        done
        [ $number -ge $1 ] || { echo "$options: killed $number times only"; cat said; exit 1; }
        finally || { echo "$options: not done"; ls -lR a b; exit 1; }
    }

    options=category.create=ff,moveonenospc=ff
    prepare() { mkdir a/d; head -c 600000 /dev/zero | tr "\0" o > a/d/f; }
    program="import os; f = os.open(\"$PWD/m/d/f\", os.O_WRONLY | os.O_APPEND); exit(os.write(f, b\"n\" * 600000) != 600000)"
    whole() {
        run cat $PWD/m/d/f > now
        [ $(head -c 600000 now | tr -d o | wc -c) = 0 ] && [ $(wc -c < now) -ge 600000 ] &&
            [ $(tail -c +600001 now | tr -d n | wc -c) = 0 ] && [ -z "$(find a b -name ".culvert*")" ]
    }
    finally() { [ $(wc -c < now) = 1200000 ] && [ -e b/d/f ] && ! [ -e a/d/f ]; }
    each 5

    options=category.create=epff,rename-exdev=rel-symlink
    prepare() { mkdir a/one b/two; echo text > a/one/f; }
    program="import os; os.rename(\"$PWD/m/one/f\", \"$PWD/m/two/g\")"
    whole() {
        run sh -c "cat $PWD/m/two/g 2> /dev/null || cat $PWD/m/one/f" > now
        [ "$(cat now)" = text ]
    }
    finally() { [ "$(readlink b/two/g)" = ../.mergerfs_rename_exdev/one/f ] && ! [ -e a/one/f ]; }
    each 3

    # The other name keeps what it has; this one has what was written, or not yet.
    options=category.create=ff,link_cow=true
    prepare() { mkdir a/d; echo text > a/d/f; ln a/d/f a/d/g; }
    program="import os; f = os.open(\"$PWD/m/d/f\", os.O_WRONLY); exit(os.write(f, b\"TEXT\") != 4)"
    whole() {
        run cat $PWD/m/d/f $PWD/m/d/g > now
        [ "$(head -1 now)" = text -o "$(head -1 now)" = TEXT ] && [ "$(tail -1 now)" = text ]
    }
    finally() { [ "$(head -1 now)" = TEXT ] && [ $(stat -c %h a/d/f) = 1 ]; }
    each 4

    # An earlier branch has the new name, which is the old file or the new one.
    options=category.create=ff
    prepare() { mkdir a/d b/d; echo old > a/d/g; echo new > b/d/f; }
    program="import os; os.rename(\"$PWD/m/d/f\", \"$PWD/m/d/g\")"
    whole() {
        run sh -c "cat $PWD/m/d/g; cat $PWD/m/d/f 2> /dev/null" > now
        [ "$(cat now)" = new -o "$(cat now)" = "old
new" -o "$(cat now)" = "new
new" ]
    }
    finally() { [ "$(cat now)" = new ] && ! [ -e a/d/g ] && ! [ -e b/d/f ]; }
    each 2
'
echo whole
