"""Programs that are executed, and files that are open for writing: ETXTBSY, both ways, from several processes."""

import errno, os, shutil, signal, stat, subprocess, sys

top, static = sys.argv[1:3]
os.chdir(top)


def outcome(run, *arguments):
    try:
        run(*arguments)
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]


def say(what, *answers):
    print(what, *answers, flush=True)


def opened(path, flags):
    os.close(os.open(path, flags, 0o755))


def started(path, *arguments):
    """What starting it says; it runs until its input ends, which is at once."""
    return outcome(lambda: subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True))


def elsewhere(run):
    """The same in a program of its own."""
    script = "import os, sys, errno, subprocess\n" + run
    return subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout.strip()


def without_rights(run):
    """As an owner, or another user, whom the superuser's rights do not help."""
    superuser = os.getuid() == 0
    if superuser:
        os.chmod(".", 0o755)
        os.seteuid(65534)
    run()
    if superuser:
        os.seteuid(0)


WRITES = {
    "write": os.O_WRONLY,
    "both": os.O_RDWR,
    "append": os.O_WRONLY | os.O_APPEND,
    "truncate": os.O_WRONLY | os.O_TRUNC,
    "read and truncate": os.O_RDONLY | os.O_TRUNC,
    "create": os.O_WRONLY | os.O_CREAT,
    "read": os.O_RDONLY,
    "path": os.O_PATH,
}


def attempts(path):
    for name, flags in WRITES.items():
        say(name, outcome(opened, path, flags))
    say("truncate by path", outcome(os.truncate, path, 1))
    say("elsewhere", elsewhere(
        f"try: open({path!r}, 'r+b').close(); print('ok')\nexcept OSError as e: print(errno.errorcode[e.errno])"))
    say("chmod", outcome(os.chmod, path, 0o755), "times", outcome(os.utime, path))
    # Who may not write it is told that, and not that it is executed.
    os.chmod(path, 0o555)
    without_rights(lambda: say("without the right", outcome(os.truncate, path, 1)))
    os.chmod(path, 0o755)


def copy(source, path):
    shutil.copyfile(source, path)
    os.chmod(path, 0o755)


# What is executed is not written, and can be replaced.
for source in "/bin/cat", static:
    copy(source, "p")
    running = subprocess.Popen(["cat"], executable="./p", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running.stdin.write(b"x")
    running.stdin.flush()
    running.stdout.read(1)
    attempts("p")
    os.link("p", "other")
    say("by another name", outcome(opened, "other", os.O_WRONLY))
    os.rename("other", "q")
    os.unlink("p")
    copy(source, "p")
    say("one of the same name", outcome(opened, "p", os.O_WRONLY))
    copy("/bin/true", "new")
    os.rename("new", "q")
    say("replaced", outcome(opened, "q", os.O_WRONLY))
    running.stdin.close()
    say("ended", running.wait())

# Killed, it is free again.
copy("/bin/cat", "p")
running = subprocess.Popen(["./p"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
running.stdin.write(b"x")
running.stdin.flush()
running.stdout.read(1)
say("running", outcome(opened, "p", os.O_WRONLY))
running.kill()
running.wait()
say("killed", outcome(opened, "p", os.O_WRONLY), started("./p"))

# What is open for writing is not executed: by its opener, by a child, by others.
open("s", "w").write("#!/bin/sh\nexit 0\n")
open("t", "w").write(f"#!{top}/p\n")
os.chmod("s", 0o755)
os.chmod("t", 0o755)
say("before", started("./p"), started("./s"), started("./t", "/dev/null"))
for flags in os.O_WRONLY, os.O_RDWR, os.O_RDONLY:
    for path in "p", "s":
        fd = os.open(path, flags)
        say("open", path, flags, started("./p"), started("./s"), started("./t", "/dev/null"))
        say("elsewhere", elsewhere(
            f"try: print(subprocess.run(['./{path}'], stdin=subprocess.DEVNULL).returncode)\nexcept OSError as e: print(errno.errorcode[e.errno])"))
        copied = os.dup(fd)
        os.close(fd)
        say("a copy of the descriptor", started("./" + path))
        os.close(copied)
        say("closed", started("./" + path))

# By a process alone, that never forked, and that is killed.
read, write = os.pipe()
other = os.fork()
if other == 0:
    fd = os.open("p", os.O_WRONLY)
    os.write(write, b"x")
    signal.pause()
os.read(read, 1)
say("another has it", started("./p"))
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
say("and was killed", started("./p"))

# Made with all rights, by its maker.
fd = os.open("made", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
os.write(fd, open("/bin/true", "rb").read())
say("being made", started("./made"))
os.close(fd)
say("made", started("./made"))

# Inherited by a program.
fd = os.open("made", os.O_WRONLY)
os.set_inheritable(fd, True)
holder = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False)
os.close(fd)
say("inherited", started("./made"))
holder.stdin.close()
holder.wait()
say("ended", started("./made"))
