cd $M && python3 -c '
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
fd = libc.fanotify_init(0, os.O_RDONLY)
print(libc.fanotify_mark(fd, 1, ctypes.c_uint64(2), -100, b"."), os.strerror(ctypes.get_errno()))
'
