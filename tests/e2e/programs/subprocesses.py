"""Python's subprocess module in its several ways, with the tree `odd` as the working directory."""

import os
import subprocess

file = open("lines.txt", "rb", buffering=0)
print(file.read(7))
print(subprocess.run(["head", "-c", "7"], stdin=file, capture_output=True).stdout)
print(subprocess.run(["cat", "hello.txt"], cwd="dir/..", capture_output=True, close_fds=True).stdout)
done = subprocess.run(["bash", "-c", "cat <&%d" % file.fileno()], capture_output=True, close_fds=True)
print(done.returncode, done.stdout, done.stderr)
done = subprocess.run(["bash", "-c", "head -c 7 <&%d" % file.fileno()], capture_output=True, pass_fds=[file.fileno()])
print(done.stdout, file.tell())
done = subprocess.run(["cat", "hello.txt"], capture_output=True, env={}, cwd=os.environ["M"])
print(done.stdout)
child = subprocess.Popen(["sort", "-r"], stdin=open("many/f0003"), stdout=subprocess.PIPE)
print(child.communicate())
print(os.popen("head -n 2 lines.txt").read())
done = subprocess.run(["sh", "-c", "cat a.txt; pwd"], capture_output=True, cwd="dir", close_fds=False)
print(done.stdout)
os.chdir("dir")
print(subprocess.check_output("cat a.txt ../hello.txt", shell=True))
