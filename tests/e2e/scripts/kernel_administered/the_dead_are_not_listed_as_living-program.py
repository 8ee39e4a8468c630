import ctypes, itertools, json, os, signal, subprocess, sys

culvert, source, target = sys.argv[1:]
ctypes.CDLL(None).prctl(
    36, 1
)  # PR_SET_CHILD_SUBREAPER: what the command leaves behind is ours, and we do not wait for it.


def one():
    listed = subprocess.run([culvert, 'list', '--json'], stdout=subprocess.PIPE, check=True).stdout
    return next(one for one in json.loads(listed) if one['target'] == target)


def text():
    listed = subprocess.run([culvert, 'list'], stdout=subprocess.PIPE, check=True).stdout.decode()
    first, *more = listed[listed.index(source + ' on ' + target) :].splitlines()
    return first + str(list(itertools.takewhile(lambda line: line.startswith('  '), more)))


def kill(number):
    os.kill(number, signal.SIGKILL)
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)


subprocess.run([culvert, 'mount', '--restart', source, target], check=True)
mount = one()
kill(mount['keeper'])
print(one()['served'], 'keeper' in one(), 'is gone: it is the last' in text())
kill(mount['server'])
print(one()['served'], 'no server answers' in text())
