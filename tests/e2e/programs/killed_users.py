"""Kills and stops programs that use a mount, at any moment: DIRECTORY, how many. Another one goes on
meanwhile, and what the killed have written is whole."""

import os
import random
import signal
import sys
import time

directory, deaths = sys.argv[1], int(sys.argv[2])
numbers = random.Random(7)


def use(seed):
    """Opens, writes, renames, lists, closes and removes until it is killed."""
    own = random.Random(seed)
    name = f"{directory}/{os.getpid()}"
    while True:
        with open(name, "wb") as file:
            file.write(bytes([own.randrange(256)]) * 5000)
        os.rename(name, name + ".moved")
        with open(name + ".moved", "rb") as file:
            assert len(set(file.read())) == 1
        os.listdir(directory)
        os.remove(name + ".moved")


def go_on():
    """What takes as long as its own requests."""
    name = f"{directory}/other"
    with open(name, "wb") as file:
        file.write(b"other" * 1000)
    with open(name, "rb") as file:
        assert file.read() == b"other" * 1000
    os.remove(name)


left = deaths
while left > 0:
    children = []
    for _ in range(min(left, 4)):
        child = os.fork()
        if child == 0:
            try:
                use(numbers.randrange(1 << 30) + os.getpid())
            finally:
                os._exit(1)
        children.append(child)
    time.sleep(numbers.random() / 100)
    os.kill(children[0], signal.SIGSTOP)
    os.waitpid(children[0], os.WUNTRACED)
    go_on()
    if numbers.randrange(2):
        os.kill(children[0], signal.SIGCONT)
    for child in children:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            print("ended by itself", status)
    go_on()
    left -= len(children)
for name in os.listdir(directory):
    if name.endswith(".moved"):
        with open(f"{directory}/{name}", "rb") as file:
            if len(set(file.read())) != 1:
                print("torn:", name)
print("all ended")
