"""Names that are missing again and again, and then are links into the mount: what is found is not what
was found before. argv[1]: the mount."""
import os, sys

MOUNT = sys.argv[1]
HERE = os.getcwd()


def said(ask, *arguments):
    try:
        answer = ask(*arguments)
        return "there" if answer is None or isinstance(answer, (int, os.stat_result)) else answer
    except OSError as error:
        return error.strerror


def opened(path, flags=0):
    os.close(os.open(path, os.O_RDONLY | flags))


ASKS = [
    os.stat, os.lstat, opened, lambda path: opened(path, os.O_NOFOLLOW), lambda path: opened(path, os.O_PATH),
    lambda path: str(os.access(path, os.R_OK)), lambda path: os.path.islink(path) and os.readlink(path) or "no link",
]


def ask(path):
    # Often enough to be expected.
    return [[str(said(ask, path)) for ask in ASKS] for _ in range(4)][-1]


for base in [HERE, "."]:
    for name in ["x", "d/x", "d/../x", "d/../../nowhere/x", "x/", "f/x"]:
        print(name, ask(f"{base}/{name}"))
    os.mkdir("d"), os.close(os.open("f", os.O_CREAT))
    for name in ["x", "d/x", "d/../x", "d/x/../y", "f/x", "f/../x"]:
        print(name, ask(f"{base}/{name}"))
    os.symlink(f"{MOUNT}/hello.txt", "x"), os.symlink(f"{MOUNT}/dir", "d/x"), os.symlink(f"{MOUNT}/nothing", "y")
    for name in ["x", "d/x", "d/x/a.txt", "d/x/../hello.txt", "d/x/../nothing", "d/../x", "x/", "y", "d/../y", "d/x/../../no/x"]:
        print(name, ask(f"{base}/{name}"))
    os.unlink("x"), os.unlink("d/x"), os.unlink("y")
    for name in ["x", "d/x", "d/x/a.txt", "d/x/../hello.txt"]:
        print(name, ask(f"{base}/{name}"))
    os.close(os.open("x", os.O_CREAT))
    print("made", ask(f"{base}/x"))
    os.unlink("x"), os.unlink("f"), os.rmdir("d")
