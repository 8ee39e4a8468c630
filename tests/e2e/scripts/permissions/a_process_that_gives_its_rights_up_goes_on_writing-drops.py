import os

own = os.open('log', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
os.write(own, b'first ')
child = os.fork()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
if child:
    os.waitpid(child, 0)
print(os.write(own, b'own '))
again = os.open('log', os.O_RDWR | os.O_APPEND)
print(os.write(again, b'again '), os.pread(own, 99, 0), os.fstat(again).st_size)
