python3 - $M << 'E'
import os, subprocess, sys
os.chdir(sys.argv[1])
os.makedirs('d/e'); os.symlink('d/e', 'l')
for i in range(400): open('f%d' % i, 'w').close()
def held(): return len(subprocess.check_output(['ls', '/proc/%d/fd' % os.getpid()]).split())
def work(names):
    for name in names:
        for path in (name, 'd/e/../../' + name, os.path.abspath(name)):
            os.stat(path); os.lstat(path); os.access(path, os.R_OK); os.close(os.open(path, os.O_RDONLY))
        os.stat('l'); os.listdir('l')
        try: os.open(name + '/x', os.O_RDONLY)
        except NotADirectoryError: pass
work('f%d' % i for i in range(200))
before = held()
work('f%d' % i for i in range(200, 400))
print(held() - before < 20)
E
