"""python3 -m culvert CLASS SOURCE TARGET [-f] [-o OPTION,…]: serves a class of an author's.

Without -f it goes to the background once it is mounted. CLASS is MODULE.NAME, or FILE.py:NAME. Options: path=DIRECTORY adds to where modules are looked for
(again for more); all others are the class's. With --as mfusepy or --as pyfuse3 the first word is a
program that imports that module, which is Culvert's then, and the rest are its own words.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, List, NoReturn

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
        spec = importlib.util.spec_from_file_location(os.path.basename(module)[:-3], module)
        if spec is None or spec.loader is None or not os.path.exists(module):
            fail(f"class={name}: there is no file {module} that is a module")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = loaded
        spec.loader.exec_module(loaded)
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


def closed(place: str) -> None:
    """Root executes only what nobody else may write."""
    if os.geteuid() == 0 and os.path.exists(place):
        found = os.stat(place)
        if found.st_uid != 0 or found.st_mode & 0o022:
            fail(f"{place}: others than root may write it, and root executes no such code")


def main(words: List[str]) -> int:
    if words[:1] == ["--as"]:
        if len(words) < 3 or words[1] not in ADAPTERS:
            fail("--as wants mfusepy or pyfuse3, and a program")
        adapter = importlib.import_module("." + words[1], __package__)
        sys.modules[words[1]] = adapter
        closed(words[2])
        import runpy
        sys.argv = words[2:]
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[2])))
        runpy.run_path(words[2], run_name="__main__")
        return 0
    options, plain, rest = [], [], iter(words)
    for word in rest:
        if word == "-o":
            options += split(next(rest, ""))
        elif word != "-f":
            plain.append(word)
    if len(plain) != 3:
        fail("give CLASS SOURCE TARGET; see python3 -m pydoc culvert.__main__")
    name, source, target = plain
    for place in [option[5:] for option in options if option.startswith("path=")]:
        closed(place)
        sys.path.insert(0, os.path.abspath(place))
    if name.rpartition(":")[0]:
        closed(name.rpartition(":")[0])
    options = [option for option in options if not option.startswith("path=")]
    kind = load(name)
    system = kind()
    if not isinstance(system, FileSystem):
        fail(f"class={name}: it is no culvert.FileSystem")
    return _host.serve(system, source, target, options, foreground="-f" in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
