import fcntl, os, struct

one = os.open('@target@/f', os.O_CREAT | os.O_RDWR)
fcntl.lockf(one, fcntl.LOCK_EX, 5)
beside = os.open('@source@/f', os.O_RDWR)
fcntl.lockf(beside, fcntl.LOCK_EX, 5, 10)
told, tell = os.pipe()
child = os.fork()
if child == 0:
    for at in 0, 10:
        lock = struct.pack('hh4xqqi4x', fcntl.F_WRLCK, 0, at, 1, 0)
        print(
            struct.unpack('hh4xqqi4x', fcntl.fcntl(one, fcntl.F_GETLK, lock))[4] == os.getppid(),
            flush=True,
        )
    os._exit(0)
os.waitpid(child, 0)
