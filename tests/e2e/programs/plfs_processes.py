"""The processes of a service or relay of plfs: what plfs_service.py and plfs_relay.py look for."""

import pathlib


def of(command, path):
    """Those of `culvert COMMAND PATH`, each with its parent."""
    found = {}
    for one in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (one / "cmdline").read_bytes().split(b"\0")
            parent = int((one / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if words[1:3] == [command.encode(), path.encode()]:
            found[int(one.name)] = parent
    return found


def child(found):
    """The one whose parent is of them, too."""
    return next(pid for pid, parent in found.items() if parent in found)
