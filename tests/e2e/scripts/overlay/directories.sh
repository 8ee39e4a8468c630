set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    mkdir -p lower/d/e upper work m native k
    for name in one two three; do echo $name > lower/d/$name; done
    cp -a lower native/
    mkdir native/upper native/work native/m
    change() {
        (
            cd $1
            echo more >> d/one; chmod 600 d/two; mv d/three d/e/moved
            rm d/e/moved; mkdir d/new; ln -s one d/link; ln d/one d/new/again
            rm -r d/e; mkdir d/e; : > d/e/file
        )
    }
    shown() { (cd $1; find . -mindepth 1 | sort | while read -r name; do
        stat -c "%n %A %h" "$name"; [ -f "$name" ] && cat "$name" || :; done) | sed "s/^\(.* d.*\) [0-9]*$/\1/"; }
    disk() { (cd $1; find . -mindepth 1 | sort | while read -r name; do
        stat -c "%n %F %t,%T" "$name"; getfattr -h --absolute-names -d -m trusted.overlay. "$name" 2> /dev/null |
            grep -v "^#" | sed "s/origin=.*/origin/" || :; done); }
    mount -t overlay -o lowerdir=native/lower,upperdir=native/upper,workdir=native/work,index=off,redirect_dir=off,xino=off overlay native/m
    change native/m; shown native/m > native.shown; umount native/m
    options=lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work
    case @way@ in
        run)
            change_text="cd $PWD/m; echo more >> d/one; chmod 600 d/two; mv d/three d/e/moved
                rm d/e/moved; mkdir d/new; ln -s one d/link; ln d/one d/new/again
                rm -r d/e; mkdir d/e; : > d/e/file"
            $culvert run --no-private --mount type=overlay,$options,target=$PWD/m -- sh -ec "$change_text"
            ;;
        mount)
            $culvert mount -t overlay -o $options overlay $PWD/m
            change m; shown m > own.shown; $culvert umount $PWD/m
            diff native.shown own.shown ;;
    esac
    disk native/upper > native.disk; disk upper > own.disk
    diff native.disk own.disk
    mount -t overlay -o $options,index=off,redirect_dir=off,xino=off overlay k
    shown k > read.shown; umount k
    diff native.shown read.shown && echo same
'
