import os

os.chdir(os.environ['M'])
for root in ['/', '/proc/self/root', '..' + '/..' * 20]:
    os.chroot(root)
    print(os.getcwd() == os.environ['M'], open('f').read(), sorted(os.listdir('.')))
try:
    os.chroot('/none')
except OSError as error:
    print(error)
os.chroot('/usr')
print(os.path.exists(os.environ['M']))
