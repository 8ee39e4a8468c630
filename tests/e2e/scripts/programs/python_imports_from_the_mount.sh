cd $M
python3 -c '
import package, os, importlib.resources as r

print(package.value, package.__file__)
print(sorted((d, sorted(s), sorted(f)) for d, s, f in os.walk("package")))
print((r.files("package") / "data" / "table.csv").read_text())
print(
    open("words").read()[:30],
    os.path.getsize("words"),
    [e.name for e in sorted(os.scandir("bin"), key=lambda e: e.name) if e.is_file()],
)
'
cd /
PYTHONPATH=$M python3 -c '
from package.part import value
import mmap, pathlib, shutil, glob, os, zipfile

print(value)
p = pathlib.Path(os.environ["M"])
print(sorted(str(x) for x in p.glob("**/*.py")))
f = open(p / "words", "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
print(m[:5], len(m))
(
    shutil.copytree(p / "package", "copy", dirs_exist_ok=True)
    if os.access(".", os.W_OK) and False
    else None
)
print((p / "bin" / ".." / "words").resolve())
'
cd $W
python3 $M/bin/script.py 1 2
python3 -m package 2>&1 | tail -n 1
python3 -m compileall -q $M/package
echo $?
python3 -m json.tool $M/node/package.json
