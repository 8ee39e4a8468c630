"""Who may move directories, keep set-group-ID and give files away: tables of all combinations, one line for each."""

import ctypes, errno, itertools, os, sys

libc = ctypes.CDLL(None, use_errno=True)
ME, OTHER, MINE, THEIRS, ALSO = 1000, 1001, 1000, 1001, 1007
top, parts = sys.argv[1], sys.argv[2:]
os.chdir(top)
os.umask(0)
os.chmod(".", 0o777)


def as_user(uid, gid, groups, run):
    """What `run` says to that user: ok or an errno's name."""
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        result = run()
        return "ok" if result in (None, 0) else errno.errorcode[ctypes.get_errno()]
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([])


def make(path, kind, owner, group, mode):
    if kind == "dir":
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    os.chown(path, owner, group)
    os.chmod(path, mode)


def remove(path):
    try:
        os.rmdir(path)
    except NotADirectoryError:
        os.unlink(path)
    except FileNotFoundError:
        pass


def exchange(a, b):
    return libc.renameat2(-100, a.encode(), -100, b.encode(), 2)


def moves():
    """Owner and mode of what is moved, owners and sticky bits of both directories, what is replaced or exchanged."""
    parents = list(itertools.product((ME, OTHER), (0, 0o1000), (0o777, 0o755)))
    for (a, sa, ma), (b, sb, mb) in itertools.product(parents, parents):
        make("a", "dir", a, THEIRS, sa | ma)
        make("b", "dir", b, THEIRS, sb | mb)
        for kind, owner, mode in itertools.product(("dir", "file"), (ME, OTHER), (0o777, 0o755, 0o555)):
            said = []
            for other in (None, ("dir", ME, 0o755), ("dir", OTHER, 0o755), ("dir", OTHER, 0o777), ("file", ME, 0o644)):
                for how in (os.rename, exchange):
                    if how is exchange and other is None:
                        continue
                    make("a/x", kind, owner, THEIRS, mode)
                    if other:
                        make("b/x", other[0], other[1], THEIRS, other[2])
                    said.append(as_user(ME, MINE, [], lambda: how("a/x", "b/x")))
                    remove("a/x")
                    remove("b/x")
            # Within one directory nothing of the kind is asked.
            make("a/x", kind, owner, THEIRS, mode)
            said.append(as_user(ME, MINE, [], lambda: os.rename("a/x", "a/y")))
            remove("a/x")
            remove("a/y")
            print(f"{a}.{sa | ma:o} {b}.{sb | mb:o} {kind} {owner}.{mode:o}:", *said)
        os.rmdir("a")
        os.rmdir("b")


WHO = {"root": (0, 0, []), "owner": (ME, MINE, []), "member": (ME, MINE, [ALSO]), "stranger": (OTHER, THEIRS, []), "in group": (OTHER, THEIRS, [ALSO])}


def chmods():
    """Set-group-ID at chmod: for files and directories, by who is in the group and who is not."""
    for kind, group, mode, who in itertools.product(("file", "dir"), (MINE, ALSO, THEIRS), (0o2755, 0o2644, 0o6770, 0o3777), WHO):
        make("f", kind, ME, group, 0o755)
        said = [as_user(*WHO[who], lambda: os.chmod("f", mode)), f"{os.stat('f').st_mode & 0o7777:o}"]
        os.chmod("f", 0o755)
        fd = os.open("f", os.O_RDONLY)
        said += [as_user(*WHO[who], lambda: os.fchmod(fd, mode)), f"{os.fstat(fd).st_mode & 0o7777:o}"]
        os.close(fd)
        print(kind, group, f"{mode:o}", who, *said)
        remove("f")


def chowns(nobody_named):
    """chown: by whom, to whom, and what becomes of the mode and the time of change."""
    named = {"same": (ME, ALSO), "user": (ME, -1), "group": (-1, ALSO), "away": (OTHER, -1), "mine": (-1, MINE), "theirs": (-1, THEIRS)}
    changes = {"none": (-1, -1)} if nobody_named else named
    modes = (0o755, 0o4755, 0o2755, 0o2644, 0o6755, 0o6711)
    for kind, mode, who, change in itertools.product(("file", "dir"), modes, WHO, changes):
        for how in ("chown", "lchown", "fchown"):
            make("f", kind, ME, ALSO, mode)
            fd = os.open("f", os.O_RDONLY)
            before = os.stat("f").st_ctime_ns
            while how == "chown" and os.stat(".").st_mtime_ns <= before:
                # Until the clock of the file system has moved.
                os.close(os.open("tick", os.O_CREAT, 0o600))
                os.unlink("tick")
            call = {"chown": lambda: os.chown("f", *changes[change]), "lchown": lambda: os.lchown("f", *changes[change]), "fchown": lambda: os.fchown(fd, *changes[change])}[how]
            said = as_user(*WHO[who], call)
            after = os.fstat(fd)
            moved = "moved" if after.st_ctime_ns > before else "stays"
            moved = moved if how == "chown" else ""
            print(how, kind, f"{mode:o}", who, change, said, f"{after.st_mode & 0o7777:o}", after.st_uid, after.st_gid, moved)
            os.close(fd)
            remove("f")


def writes():
    """What a write or a change of length by each leaves of the mode."""
    for mode, who in itertools.product((0o4777, 0o2777, 0o2766, 0o6777), WHO):
        said = []
        for change in ("write", "truncate", "ftruncate"):
            make("f", "file", ME, ALSO, mode)

            def run():
                fd = os.open("f", os.O_RDWR)
                {"write": lambda: os.write(fd, b"x"), "truncate": lambda: os.truncate("f", 3), "ftruncate": lambda: os.ftruncate(fd, 3)}[change]()
                os.close(fd)

            said += [as_user(*WHO[who], run), f"{os.stat('f').st_mode & 0o7777:o}"]
            remove("f")
        print(f"{mode:o}", who, *said)


for part in parts:
    {"moves": moves, "chmods": chmods, "chowns": lambda: chowns(False), "nobody": lambda: chowns(True), "writes": writes}[part]()
