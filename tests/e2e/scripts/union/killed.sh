set -e
cd @place@
export culvert=@culvert@ way=@way@
unshare -m --propagation private bash -ec '
    mkdir -p a b m
    mount -t tmpfs -o size=1m none a
    mount -t tmpfs -o size=8m none b
    mkfifo go
    calls=linkat,unlinkat,mkdirat,symlinkat,fsync,ftruncate,fchmod,utimensat,renameat2,pwrite64
    calls=$calls,setxattr,fsetxattr,removexattr,fremovexattr
    source=$PWD/a:$PWD/b
    begin="import os, sys; open(\"$PWD/ready\", \"w\").write(str(os.getpid())); sys.stdin.readline(); "
    run() { $culvert run -v $source:$PWD/m:type=union,minfreespace=0,$options -- "$@"; }
    # Has `program` do what it does, while who makes the changes is traced as the words say: it, or the server.
    attempt() {
        rm -rf a/* b/* a/.[a-z]* b/.[a-z]* ready
        prepare
        case $way in
            run)
                run python3 -c "$begin$program" < go > said 2>&1 &
                worker=$!
                exec 4> go
                until [ -s ready ]; do sleep 0.005; done
                victim=$(cat ready) ;;
            mount)
                $culvert mount --foreground -t union -o minfreespace=0,$options $source $PWD/m > said 2>&1 &
                worker=$! victim=$!
                until grep -q " $PWD/m fuse" /proc/mounts; do sleep 0.005; done ;;
        esac
        strace -f -qq -o trace "$@" -p $victim &
        tracer=$!
        while grep -qs "^TracerPid:.0$" /proc/$victim/task/*/status; do sleep 0.005; done
        status=0
        case $way in
            run)
                echo >&4
                exec 4>&-
                wait $worker || status=$? ;;
            mount) echo | timeout 20 python3 -c "$begin$program" > said 2>&1 || status=$? ;;
        esac
        ! kill -INT $tracer 2> said.too || true
        wait $tracer || true
        [ $way = run ] || { umount -l m; wait $worker || true; } 2> said.too
    }
    wrong() { echo "$options, $*"; cat trace said; ls -lR a b; exit 1; }
    # What it leaves is to be `whole`, wherever it is killed, at $1 places at least.
    each() {
        attempt -e trace=$calls
        [ $status = 0 ] && whole && finally || wrong not done
        points=$(sed -nE "s/^([0-9]+) +([a-z0-9]+)\(.*/\1 \2/p" trace | awk "{ n[\$0]++; print \$2, n[\$0] }" | sort -u)
        killed=0
        while read -u 5 call number; do
            attempt -e trace=$call -e inject=$call:signal=KILL:when=$number
            ! grep -q "killed by SIGKILL" trace || killed=$((killed + 1))
            whole || wrong not whole at $call $number
        done 5<<< "$points"
        [ $killed -ge $1 ] || wrong killed $killed times only: $points
    }

    options=category.create=ff,moveonenospc=ff
    prepare() { mkdir a/d; head -c 600000 /dev/zero | tr "\0" o > a/d/f; }
    program="f = os.open(\"$PWD/m/d/f\", os.O_WRONLY | os.O_APPEND); exit(os.write(f, b\"n\" * 600000) != 600000)"
    whole() {
        run cat $PWD/m/d/f > now
        [ $(head -c 600000 now | tr -d o | wc -c) = 0 ] && [ $(wc -c < now) -ge 600000 ] &&
            [ $(tail -c +600001 now | tr -d n | wc -c) = 0 ]
    }
    finally() { [ $(wc -c < now) = 1200000 ] && [ -e b/d/f ] && ! [ -e a/d/f ]; }
    each 5

    options=category.create=epff,rename-exdev=rel-symlink
    prepare() { mkdir a/one b/two; echo text > a/one/f; }
    program="os.rename(\"$PWD/m/one/f\", \"$PWD/m/two/g\")"
    whole() {
        run sh -c "cat $PWD/m/two/g 2> /dev/null || cat $PWD/m/one/f" > now
        [ "$(cat now)" = text ]
    }
    finally() { [ "$(readlink b/two/g)" = ../.mergerfs_rename_exdev/one/f ] && ! [ -e a/one/f ]; }
    each 3

    # Of a directory either name may be a link to it, and neither leads nowhere.
    prepare() { mkdir -p a/one/d b/two; echo text > a/one/d/f; }
    program="os.rename(\"$PWD/m/one/d\", \"$PWD/m/two/g\")"
    whole() {
        run sh -c "cd $PWD/m; for d in one/d two/g; do ! [ -L \$d -o -e \$d ] || cat \$d/f || echo none; done" > now
        [ "$(sort -u now)" = text ]
    }
    finally() {
        [ "$(readlink b/two/g)" = ../.mergerfs_rename_exdev/one/d ] &&
            [ -z "$(ls a/one)" -a "$(ls a/.mergerfs_rename_exdev/one/d)" = f ]
    }
    each 3

    # The other name keeps what it has; this one has what was written, or not yet.
    options=category.create=ff,link_cow=true
    prepare() { mkdir a/d; echo text > a/d/f; ln a/d/f a/d/g; }
    program="f = os.open(\"$PWD/m/d/f\", os.O_WRONLY); exit(os.write(f, b\"TEXT\") != 4)"
    whole() {
        run cat $PWD/m/d/f $PWD/m/d/g > now
        [ "$(head -1 now)" = text -o "$(head -1 now)" = TEXT ] && [ "$(tail -1 now)" = text ]
    }
    finally() { [ "$(head -1 now)" = TEXT ] && [ $(stat -c %h a/d/f) = 1 ]; }
    each 4

    # An earlier branch has the new name, which is the old file or the new one.
    options=category.create=ff
    prepare() { mkdir a/d b/d; echo old > a/d/g; echo new > b/d/f; }
    program="os.rename(\"$PWD/m/d/f\", \"$PWD/m/d/g\")"
    whole() {
        run sh -c "cat $PWD/m/d/g; cat $PWD/m/d/f 2> /dev/null" > now
        [ "$(cat now)" = new -o "$(cat now)" = "old
new" -o "$(cat now)" = "new
new" ]
    }
    finally() { [ "$(cat now)" = new ] && ! [ -e a/d/g ] && ! [ -e b/d/f ]; }
    each 2

    # A directory that both branches have, and below a directory that one of them lacks.
    prepare() { mkdir -p a/d/x b/d/y a/e; echo x > a/d/x/f; echo y > b/d/y/f; }
    program="os.rename(\"$PWD/m/d\", \"$PWD/m/e/n\")"
    whole() {
        run sh -c "cd $PWD/m; ls -d d e/n; cat d/?/f e/n/?/f" > now 2> said.too
        [ "$(echo $(cat now))" = "d x y" -o "$(echo $(cat now))" = "e/n x y" ] && [ -z "$(getfattr -d a b)" ]
    }
    finally() { [ "$(echo $(cat now))" = "e/n x y" ]; }
    each 4

    # The same where the new name is taken before anybody finishes it: it is undone.
    attempt -e trace=renameat2 -e inject=renameat2:signal=KILL:when=2
    [ -e a/d/x/f -a -e b/e/n/y/f ] || wrong not half done
    mkdir -p a/e/n/z
    run sh -c "cd $PWD/m; ls -d d; cat d/?/f" > now
    [ "$(echo $(cat now))" = "d x y" ] && [ -z "$(getfattr -d a b)" ] || wrong not undone

    # An empty directory of the first branch hides the new name.
    prepare() { mkdir -p a/n b/d/y; echo y > b/d/y/f; chmod 700 b/d; }
    program="os.rename(\"$PWD/m/d\", \"$PWD/m/n\")"
    whole() {
        run sh -c "cd $PWD/m; ls -d d; cat d/?/f n/?/f; stat -c %a n" > now 2> said.too
        [ "$(echo $(cat now))" = "d y 755" -o "$(echo $(cat now))" = "y 700" ] && [ -z "$(getfattr -d a b)" ]
    }
    finally() { [ "$(echo $(cat now))" = "y 700" ]; }
    each 3
'
echo whole
