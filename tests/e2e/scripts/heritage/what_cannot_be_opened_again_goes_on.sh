cd $M
echo before > f
exec python3 -c "
import mmap, os

fd = os.open('f', os.O_RDWR)
mmap.mmap(fd, 7)
os.chmod('f', 0)
os.set_inheritable(fd, True)
os.execvp(
    'python3',
    [
        'python3',
        '-c',
        '''
import errno, os, sys
for what in (lambda: os.pwrite(%d, b'lost', 0)), (lambda: os.ftruncate(%d, 3)), (lambda: os.fstat(%d).st_size):
    try:
        print(what())
    except OSError as error:
        print(errno.errorcode[error.errno])
os.chmod('f', 0o644)
print(open('f').read())
''' % (fd, fd, fd),
    ],
)
"
