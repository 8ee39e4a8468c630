"""What `type=python` starts: the package culvert, installed in the interpreter or beside this file."""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
os.environ.setdefault("CULVERT_FUSE_LIBRARY", os.path.join(HERE, "libculvert_fuse.so"))
if sys.version_info < (3, 9):
    sys.exit(f"culvert: {sys.executable} is older than 3.9; name a newer one with python=")
try:
    from culvert.__main__ import main
except ModuleNotFoundError:
    sys.path.append(os.path.join(HERE, "python"))
    try:
        from culvert.__main__ import main
    except ModuleNotFoundError:
        sys.exit(f"culvert: {sys.executable} has no package culvert; install it by scripts/bindings,"
                 " or its wheel by pip")
sys.exit(main(sys.argv[1:]))
