import mmap, os

own = open('mapped', 'r+b')
os.fstat(own.fileno())
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for file in own, open('mapped', 'rb'):
    print(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)[:])
