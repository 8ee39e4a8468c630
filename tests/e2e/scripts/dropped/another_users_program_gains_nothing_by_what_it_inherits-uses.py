import mmap, os, sys

f = open(os.environ['M'] + '/secret', 'r+b')
m = mmap.mmap(f.fileno(), 0)
if os.fork() == 0:
    os.execvp('sh', ['sh', '-c', 'echo ready; read -r _'])
os.wait()
