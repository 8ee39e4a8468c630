rm -rf s m calls
mkdir -p s/d/e m
touch s/d/e/f s/mark
ln -s e s/d/l
$B/bin/culvert run --private -v s:m -- strace -qq -o calls python3 -c '
import os
os.chdir("m")
here = os.getcwd()
def looks():
    os.lstat("d/e/f"); os.stat("d/l/f"); os.access("d/e/f", 4); os.utime("d/l/f"); os.chmod("d/e/f", 0o600)
    os.mkdir("d/e/n"); os.rename("d/e/n", "d/l/o"); os.rmdir("d/e/o"); os.stat(here + "/d/e/f"); os.close(os.open("d/l/f", os.O_RDWR))
    os.path.exists("/none/x"); os.path.exists(here + "/../none/x")
looks()
os.lstat("mark")
looks()
os.lstat("mark")
'
awk '/"mark"/ { between = !between; next } between' calls | sed 's/(.*//'
