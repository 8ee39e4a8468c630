"""File systems in Python.

An author's class extends FileSystem; `culvert run --mount type=python,class=MODULE.CLASS,…` and
`culvert mount -t python` serve it. See docs/bindings.md.
"""

from .filesystem import FileSystem, Mount, caller, run

__all__ = ["FileSystem", "Mount", "caller", "run"]
__version__ = "0.1.0"
