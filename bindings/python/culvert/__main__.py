"""python3 -m culvert CLASS SOURCE TARGET [-f] [-o OPTION,…]: serves a class of an author's.

Without -f it goes to the background once it is mounted. CLASS is MODULE.NAME, or FILE.py:NAME.
Options: path=DIRECTORY adds to where modules are looked for (again for more); all others are the
class's. With --as mfusepy or --as pyfuse3 the first word is a program that imports that module, which
is Culvert's then, and the rest are its own words.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import stat
import sys
import types
from typing import Any, Callable, List, NoReturn, Optional

from . import _host
from .filesystem import FileSystem

ADAPTERS = ("mfusepy", "pyfuse3")


def fail(why: str) -> NoReturn:
    raise SystemExit(f"culvert: {why}")


def split(text: str) -> List[str]:
    """Options, separated by commas; a backslash keeps one."""
    words, word, escaped = [], "", False
    for character in text:
        if escaped or character not in "\\,":
            word, escaped = word + character, False
        elif character == "\\":
            escaped = True
        else:
            words.append(word)
            word = ""
    return [one for one in [*words, word] if one]


def load(name: str) -> Any:
    """The class called `name`."""
    module, separator, kind = name.rpartition(":")
    if separator:
        # What was looked at is what is executed: no compiled file beside it is.
        try:
            with open(module, "rb") as file:
                closed(os.fstat(file.fileno()), module)
                code = compile(file.read(), module, "exec")
        except (OSError, SyntaxError) as error:
            fail(f"class={name}: {error}")
        loaded = types.ModuleType(os.path.splitext(os.path.basename(module))[0])
        loaded.__file__ = os.path.abspath(module)
        sys.modules[loaded.__name__] = loaded
        exec(code, loaded.__dict__)
    else:
        module, _, kind = name.rpartition(".")
        if not module:
            fail(f"class={name}: give MODULE.CLASS or FILE.py:CLASS")
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            fail(f"class={name}: {error}; say with path=DIRECTORY where it is")
    found = getattr(loaded, kind, None)
    if found is None:
        fail(f"class={name}: {module} has no {kind}")
    return found


def closed(found: os.stat_result, place: str) -> None:
    """Root executes only what nobody else may write."""
    if os.geteuid() == 0 and (found.st_uid != 0 or found.st_mode & 0o022):
        fail(f"{place}: others than root may write it, and root executes no such code")


def closed_place(place: str) -> None:
    """The same for a directory of modules or a file in it, and those above; in a sticky one nobody
    renames others' files."""
    place = own = os.path.realpath(place)
    while os.geteuid() == 0:
        found = os.stat(place)
        sticky = place != own and found.st_mode & stat.S_ISVTX
        if found.st_uid != 0 or found.st_mode & 0o022 and not sticky:
            fail(f"{place}: others than root may write it, and root executes no code from there")
        if place == os.path.dirname(place):
            return
        place = os.path.dirname(place)


class Source(importlib.machinery.SourceFileLoader):
    """Reads what it has looked at, not what others have put there meanwhile."""

    def get_data(self, path: str) -> bytes:
        with open(path, "rb") as file:
            closed(os.fstat(file.fileno()), path)
            return file.read()


class Closed:
    """Finds modules in `places` as Python does, and looks at each file that it is about to execute,
    and where a link leads: the source, and what is compiled of it."""

    def __init__(self, places: List[str]) -> None:
        self.places = tuple(os.path.join(os.path.realpath(place), "") for place in places)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None:
            return None
        files = [found.origin, found.cached] if found.has_location else []
        for file in files:
            names = (os.path.abspath(file), os.path.realpath(file)) if file else ()
            if any(name.startswith(self.places) for name in names):
                if os.path.exists(file):
                    closed_place(file)
                if found.loader.__class__ is importlib.machinery.SourceFileLoader:
                    found.loader = Source(found.loader.name, found.loader.path)
        return found


def looked_in(places: List[str]) -> None:
    """Lets modules be found in `places` too, the last one first."""
    for place in places:
        # By a link others may lead it elsewhere.
        place = os.path.realpath(place)
        closed_place(place)
        sys.path.insert(0, place)
    if os.geteuid() == 0:
        finder = sys.meta_path.index(importlib.machinery.PathFinder)
        sys.meta_path.insert(finder, Closed(places))


def main(words: List[str]) -> int:
    if words[:1] == ["--as"]:
        if len(words) < 3 or words[1] not in ADAPTERS:
            fail("--as wants mfusepy or pyfuse3, and a program")
        adapter = importlib.import_module("." + words[1], __package__)
        sys.modules[words[1]] = adapter
        import runpy
        program = os.path.realpath(words[2])
        closed_place(program)
        sys.argv = words[2:]
        looked_in([os.path.dirname(program)])
        runpy.run_path(program, run_name="__main__")
        return 0
    options, plain, rest = [], [], iter(words)
    for word in rest:
        if word == "-o":
            options += split(next(rest, ""))
        elif word != "-f":
            plain.append(word)
    if len(plain) != 3:
        fail("give CLASS SOURCE TARGET; see python3 -m pydoc culvert.__main__")
    if "-f" in words:
        return serve(plain, options)
    return _host.in_background(lambda mounted: serve(plain, options, mounted))


def serve(plain: List[str], options: List[str],
          mounted: Optional[Callable[[], None]] = None) -> int:
    """Serves the class, source and target that are `plain`."""
    name, source, target = plain
    looked_in([option[5:] for option in options if option.startswith("path=")])
    options = [option for option in options if not option.startswith("path=")]
    system = load(name)()
    if not isinstance(system, FileSystem):
        fail(f"class={name}: it is no culvert.FileSystem")
    return _host.serve(system, source, os.path.abspath(target), options, mounted=mounted,
                       judged=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
