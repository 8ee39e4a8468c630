rm -rf t in
mkdir -p t in/d
echo packed > in/f
echo packed > in/d/f
tar -C in -cf in.tar f d
exec 5< t
exec $B/bin/culvert run --no-private -v in.tar:t -- python3 -c '
import os
def ask(call, *arguments):
    try:
        print(call(*arguments))
    except FileNotFoundError:
        print("no")
def read(path):
    return os.read(os.open(path, os.O_RDONLY, dir_fd=5), 100).decode().strip()
def size(path):
    return os.stat(path, dir_fd=5).st_size
ask(read, "f"), ask(read, "d/f")
# Names that are missing again and again.
ask(size, "x"), ask(size, "y"), ask(size, "z"), ask(size, "f"), ask(read, "f"), ask(read, "x")
'
