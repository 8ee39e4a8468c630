import ctypes, os, signal

handled = []
signal.signal(signal.SIGALRM, lambda *_: handled.append(1))
file = os.open(os.environ['M'] + '/hello.txt', os.O_RDONLY)


# read(2) itself: os.read would make a call again that ends with EINTR.
libc = ctypes.CDLL(None)


def restarted(file, length):
    word = ctypes.create_string_buffer(length)
    count = libc.read(file, word, length)
    return word.raw[:count] if count >= 0 else count


def read(call):
    handled.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    word = call(file, 5)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print('handled' if handled else 'not handled', word, sep='\n')


read(os.read)
signal.siginterrupt(signal.SIGALRM, False)
read(restarted)
if os.fork() == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    os.read(file, 5)
print(os.waitstatus_to_exitcode(os.wait()[1]))
