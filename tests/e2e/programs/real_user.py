"""access(2) and faccessat(2) of a process whose real and effective users differ, on the way to a file and at its end."""

import ctypes, errno, os, sys

top = sys.argv[1]
other = 65534
libc = ctypes.CDLL(None, use_errno=True)


def answer(path, mode, **how):
    """As os.access has it, with the error."""
    flags = 0x200 if how.get("effective") else 0
    result = libc.syscall(439 if flags else 269, -100, path.encode(), mode, flags)
    return "ok" if result == 0 else errno.errorcode[ctypes.get_errno()]


if len(sys.argv) > 2:
    # The first look at the mount at all.
    os.setresgid(other, 0, 0)
    os.setresuid(other, 0, 0)
    print(answer(sys.argv[2], 4), answer(sys.argv[2], 2), answer(sys.argv[2], 4, effective=True))
    sys.exit()
os.chdir(top)
os.umask(0)
for owner in 0, other:
    for mode in 0o700, 0o711, 0o755, 0o070:
        name = f"d{owner}.{mode:o}"
        os.mkdir(name)
        os.mkdir(name + "/e", 0o777)
        for right in 0o600, 0o444, 0o711:
            open(f"{name}/f{right:o}", "w").close()
            os.chmod(f"{name}/f{right:o}", right)
            os.chown(f"{name}/f{right:o}", owner, owner)
        os.symlink(f"../{name}/f444", name + "/link")
        os.chown(name, owner, owner)
        os.chmod(name, mode)
names = sorted(os.listdir("."))
for real, effective in (0, other), (other, 0), (0, 0), (other, other), (1, other):
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(real, effective, 0)
        os.setresuid(real, effective, 0)
        for name in names:
            for entry in "", "/e", "/e/none", "/f600", "/f444", "/f711", "/link":
                print(real, effective, name + entry,
                      *(answer(name + entry, mode) for mode in (0, 4, 2, 1, 7)), "effective",
                      *(answer(f"{top}/{name}{entry}", mode, effective=True) for mode in (0, 4, 2, 1, 7)))
        # What follows is judged by the effective user again.
        for name in names:
            try:
                print(name, sorted(os.listdir(name)))
            except OSError as error:
                print(name, errno.errorcode[error.errno])
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
