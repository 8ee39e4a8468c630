set -e
cd @place@
export culvert=@culvert@
chmod 755 . ..
# Another user swaps directories of his on both branches for links that lead outside, while root moves files below them.
mkdir -p outside m
echo secret > outside/f
ln outside/f outside/g
chmod 700 outside
cat > swap.py <<'X'
import os, sys, time
base, outside = sys.argv[1:]
def quietly(call, *words):
    try:
        call(*words)
    except OSError:
        pass
for branch in "ab":
    os.chdir(f"{base}/{branch}")
    quietly(os.symlink, outside, "link")
    # Where files are kept that were renamed.
    quietly(os.symlink, outside, ".mergerfs_rename_exdev")
end = time.time() + 6
while time.time() < end and not os.path.exists(f"{base}/stop"):
    for branch in "ab":
        os.chdir(f"{base}/{branch}")
        quietly(os.rename, "own", "aside")
        quietly(os.rename, "link", "own")
        quietly(os.rename, "own", "link")
        quietly(os.rename, "aside", "own")
        quietly(os.unlink, ".mergerfs_rename_exdev")
X
cat > work.py <<'X'
import os, sys, time
what, mount = sys.argv[1:]
end = time.time() + 1.2
done = 0
def write(name, flags, data):
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_WRONLY, 0o644, dir_fd=own)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
# By names without links on the way, as openat2(2) says.
place = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY
two = os.open(f"{mount}/two", place)
while time.time() < end:
    try:
        own = os.open(f"{mount}/own", place)
    except OSError:
        continue
    try:
        write("f", os.O_CREAT, b"o" * 200000)
        if what == "exdev":
            os.rename("f", "g", src_dir_fd=own, dst_dir_fd=two)
            done += os.readlink("g", dir_fd=two).startswith("../.mergerfs")
        elif what == "room":
            write("f", os.O_APPEND, b"n" * 200000)
            done += 1
        else:
            os.link("f", "h", src_dir_fd=own, dst_dir_fd=own)
            write("f", 0, b"TEXT")
            done += 1
    except OSError:
        pass
    for dir, name in ((own, "f"), (own, "h"), (two, "g")):
        try:
            os.unlink(name, dir_fd=dir)
        except OSError:
            pass
    os.close(own)
print(f"{what}: {done > 0}", done, file=sys.stderr)
print(f"{what}: {done > 0}")
X
chmod 755 swap.py work.py
unshare -m --propagation private bash -ec '
    tried() {
        what=$1 options=$2 way=$3
        mkdir -p $what-$way
        cd $what-$way
        mkdir -p a b m
        case $what in room) mount -t tmpfs -o size=300k none a ;; *) mount -t tmpfs none a ;; esac
        mount -t tmpfs none b
        chmod 777 a b
        mkdir a/own b/two
        [ $what = exdev ] || mkdir b/own
        chown -R 65534:65534 a/own
        [ ! -e b/own ] || chown 65534:65534 b/own
        setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 ../swap.py $PWD $PWD/../outside 2>/dev/null &
        swapper=$!
        case $way in
            mount)
                $culvert mount -t union -o minfreespace=0,valid=0,absent=0,$options $PWD/a:$PWD/b $PWD/m
                python3 ../work.py $what $PWD/m
                umount m ;;
            run) $culvert run -v $PWD/a:$PWD/b:$PWD/m:type=union,minfreespace=0,$options -- python3 ../work.py $what $PWD/m ;;
        esac
        touch stop
        wait $swapper
        cd ..
        [ "$(cat outside/f)" = secret ] && [ "$(echo $(ls -A outside))" = "f g" ] && [ $(stat -c %h outside/f) = 2 ] ||
            { echo "$what, $way: led outside"; ls -lA outside; }
    }
    for way in mount run; do
        tried exdev category.create=epff,rename-exdev=rel-symlink $way
        tried room category.create=ff,moveonenospc=ff $way
        tried cow category.create=ff,link_cow=true $way
    done
'
echo inside
