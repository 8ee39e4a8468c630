import os, resource

resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
files = [os.open(f'f{i}', os.O_RDWR | os.O_CREAT, 0o666) for i in range(100)]
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for file in files:
    os.close(file)
print(len([os.open('f0', os.O_RDWR) for _ in range(350)]))
