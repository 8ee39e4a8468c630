"""Multiprocessing in all three ways, each worker reading files of the mount."""

import multiprocessing
import os


def size(name):
    with open(os.path.join("many", name)) as file:
        return int(file.read())


if __name__ == "__main__":
    for way in ["fork", "spawn", "forkserver"]:
        with multiprocessing.get_context(way).Pool(3) as pool:
            print(way, sum(pool.map(size, sorted(os.listdir("many")))))
