"""Goes on while the server of its mount is killed and started again, several times.

    goes_on.py TARGET SOURCE

Says what becomes of an open file, the working directory and a directory that is open, what a path
leads to afterwards, and whether each file was made once."""

import errno
import os
import subprocess
import sys
import time

target, source = sys.argv[1:]


def attempt(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


def content():
    with open(target + "/file") as file:
        return file.read().strip()


def make(name):
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return "made"


made = []
for time_of in range(3):
    file = os.open(target + "/written", os.O_CREAT | os.O_WRONLY)
    directory = os.open(target, os.O_RDONLY)
    os.chdir(target)
    subprocess.run(["pkill", "-9", "-f", f"^[a-z/]*bindfs {source} "])
    # Until there is another one each of these fails, and none is carried out later.
    while (found := attempt(lambda: make(f"{target}/made{len(made)}"))) != "made":
        assert found in ("ENOTCONN", "ECONNABORTED"), found
        time.sleep(0.01)
    made.append(f"made{len(made)}")
    print(
        attempt(lambda: os.write(file, b"x")),
        attempt(lambda: make("here")),
        attempt(lambda: os.open("there", os.O_CREAT | os.O_WRONLY, dir_fd=directory)),
        attempt(content),
        flush=True,
    )
names = [name for name in os.listdir(target) if name not in ("file", "big", "written")]
print("made once each" if sorted(names) == made else sorted(names), flush=True)
