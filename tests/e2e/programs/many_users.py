"""More processes than have places use a mount at once, and each sees what another changes.

    many_users.py DIRECTORY COUNT

Every second one is killed at the end, with files open, of which some were inherited."""

import multiprocessing
import os
import signal
import sys
import traceback

directory, count = sys.argv[1], int(sys.argv[2])
context = multiprocessing.get_context("fork")
turn = context.Barrier(count)

with open(f"{directory}/common", "wb") as file:
    file.write(b"first" * 1000)
os.mkdir(f"{directory}/moved")
inherited = os.open(f"{directory}/common", os.O_RDONLY)


def use(number):
    os.stat(f"{directory}/moved")
    turn.wait()
    with open(f"{directory}/own{number}", "w") as file:
        file.write(f"{number} " * 2000)
    common = os.open(f"{directory}/common", os.O_RDWR)
    assert os.pread(common, 5, 0) == os.pread(inherited, 5, 0) == b"first"
    turn.wait()
    assert len([name for name in os.listdir(directory) if name.startswith("own")]) == count
    other = (number + 1) % count
    with open(f"{directory}/own{other}") as file:
        assert file.read() == f"{other} " * 2000
    turn.wait()
    if number == count - 1:
        os.pwrite(common, b"other", 0)
        os.rename(f"{directory}/moved", f"{directory}/renamed")
    turn.wait()
    assert os.pread(common, 5, 0) == os.pread(inherited, 5, 0) == b"other"
    assert os.path.isdir(f"{directory}/renamed") and not os.path.exists(f"{directory}/moved")
    turn.wait()
    if number == 0:
        os.truncate(f"{directory}/common", 2)
        os.remove(f"{directory}/own{count - 1}")
    turn.wait()
    assert os.pread(common, 5, 0) == b"ot" and os.fstat(common).st_size == 2
    assert not os.path.exists(f"{directory}/own{count - 1}")
    turn.wait()
    if number % 2:
        os.kill(os.getpid(), signal.SIGKILL)


def child(number):
    try:
        use(number)
    except BaseException:
        traceback.print_exc()
        turn.abort()
        os._exit(1)
    os._exit(0)


children = []
for number in range(count):
    process = os.fork()
    if process == 0:
        child(number)
    children.append(process)
# What it shares with those that are killed is to be closed by the last of them.
os.close(inherited)
ends = [os.waitpid(process, 0)[1] for process in children]
right = [-os.waitstatus_to_exitcode(end) for end in ends] == [
    signal.SIGKILL if number % 2 else 0 for number in range(count)
]
print("all right" if right else ends)
