set -e
cd @place@
mkdir -p a b c m
for branch in a b c; do mkdir -p $branch/d; done
mkdir a/e
@culvert@ run --no-private -v $PWD/a:$PWD/b:$PWD/c:$PWD/m:type=union,category.create=rand,minfreespace=0 \
    -- python3 -c '
import os, random, signal

os.chdir("m")

def change(seed, steps):
    mine = random.Random(seed)
    while steps:
        steps -= 1
        path = mine.choice("de") + "/" + str(mine.randrange(8))
        try:
            if mine.random() < 0.6:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            else:
                os.unlink(path)
        except (FileExistsError, FileNotFoundError):
            pass

def worker(seed):
    child = os.fork()
    if child == 0:
        change(seed, -1)
    return child

for number in range(30):
    workers = [worker(number * 3 + one) for one in range(3)]
    # What the others hold when they are killed is none of theirs then.
    change(-1 - number, 60)
    for child in workers:
        os.kill(child, signal.SIGKILL)
    change(-100 - number, 60)
    for child in workers:
        os.waitpid(child, 0)
    for name in range(8):
        for directory in "de":
            there = [b for b in "abc" if os.path.exists(f"../{b}/{directory}/{name}")]
            if len(there) > 1:
                print(directory, name, "is on", there)
'
echo done
