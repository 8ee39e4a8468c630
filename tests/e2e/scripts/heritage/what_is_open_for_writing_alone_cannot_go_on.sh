
cd $M
exec python3 -c "
import os

fd = os.open('f', os.O_WRONLY | os.O_CREAT, 0o644)
os.chmod('f', 0)
os.set_inheritable(fd, True)
os.execvp(
    'python3',
    [
        'python3',
        '-c',
        '''
import errno, os
for what in (lambda: os.write(%d, b'lost'), lambda: os.read(%d, 1), lambda: os.lseek(%d, 0, os.SEEK_END)):
    try:
        print(what())
    except OSError as error:
        print(errno.errorcode[error.errno])
os.chmod('f', 0o644)
print(os.stat('f').st_size)
''' % (fd, fd, fd),
    ],
)
"
