cp /bin/cat bin/cat
python3 -c "
import os, subprocess

p = subprocess.Popen(['bin/cat'], stdin=subprocess.PIPE)
link = '/proc/%d/exe' % p.pid
print(
    os.readlink(link),
    os.readlink('exe', dir_fd=os.open('/proc/%d' % p.pid, os.O_RDONLY)),
    os.path.getsize(link) == os.path.getsize('bin/cat'),
)
p.communicate()
"
