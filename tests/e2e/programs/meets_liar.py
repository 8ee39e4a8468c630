"""What a program gets of device_liar.py: meets_liar.py TARGET."""

import errno
import os
import sys

target = sys.argv[1]


def attempt(name, call):
    try:
        print(name, call())
    except OSError as error:
        print(name, errno.errorcode[error.errno])


for name in [
    "short", "length", "unknown", "positive", "large", "notice", "errorbody", "twice",
    "truncated", "longer", "kind", "absent",
]:
    attempt(name, lambda: oct(os.stat(f"{target}/{name}").st_mode))
file = os.open(f"{target}/read", os.O_RDONLY)
attempt("read", lambda: len(os.read(file, 100)))
file = os.open(f"{target}/written", os.O_WRONLY)
attempt("written", lambda: os.write(file, b"twelve bytes"))
