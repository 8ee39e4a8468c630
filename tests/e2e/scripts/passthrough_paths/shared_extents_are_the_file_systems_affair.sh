cd $M
python3 - << 'E'
import errno, fcntl, os, struct
a, b, directory = open('a', 'w+b'), open('b', 'w+b'), os.open('.', os.O_RDONLY)
for other in b.fileno(), a.fileno(), 77, directory, os.open('/dev/null', os.O_RDWR):
    for request, argument in (0x40049409, other), (0x4020940d, struct.pack('qQQQ', other, 0, 0, 0)), (0xc0189436, struct.pack('QQHHIqQQiI', 0, 2, 1, 0, 0, other, 0, 0, 0, 0)):
        try:
            print(hex(request), fcntl.ioctl(a.fileno(), request, argument))
        except OSError as error:
            print(hex(request), errno.errorcode[error.errno])
E
