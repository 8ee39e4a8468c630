set -e
cd @place@
export culvert=@culvert@
chmod 755 . ..
# Another user swaps a directory of his for a link that leads outside, while root works below it.
mkdir -p a b m outside
chmod 777 a b
echo secret > outside/f
chmod 700 outside
cat > swap.py <<'X'
import os, sys, time
base, outside = sys.argv[1:]
end = time.time() + 3
os.chdir(base)
os.makedirs("own", exist_ok=True)
open("own/f", "w").close()
os.symlink(outside, "link")
while time.time() < end:
    os.rename("own", "aside")
    os.rename("link", "own")
    os.rename("own", "link")
    os.rename("aside", "own")
X
cat > work.py <<'X'
import errno, os, sys, time
mount = sys.argv[1]
end = time.time() + 2
count = 0
while time.time() < end:
    # By names without links on the way, as openat2(2) says.
    for step in (lambda: os.open(f"{mount}/own", os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY),):
        try:
            fd = step()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                raise
            continue
        for name, call in (
            ("f", lambda name: os.unlink(name, dir_fd=fd)),
            ("n", lambda name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))),
            ("n", lambda name: os.rename(name, "f", src_dir_fd=fd, dst_dir_fd=fd)),
            ("d", lambda name: os.mkdir(name, dir_fd=fd)),
            ("d", lambda name: os.rmdir(name, dir_fd=fd)),
            ("f", lambda name: os.chmod(name, 0o666, dir_fd=fd)),
        ):
            try:
                call(name)
                count += 1
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE, errno.EEXIST, errno.ENOTDIR, errno.ELOOP):
                    raise
        os.close(fd)
print(count > 50)
X
chmod 755 swap.py work.py
setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 swap.py $PWD/a $PWD/outside &
swapper=$!
$culvert run -v $PWD/a:$PWD/b:$PWD/m:type=union,minfreespace=0,category.create=ff -- python3 work.py $PWD/m
wait $swapper
[ "$(cat outside/f)" = secret ] && [ "$(ls outside)" = f ] && [ $(stat -c %a outside/f) != 666 ] && echo inside
