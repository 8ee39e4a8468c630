import os, signal

handled = []
signal.signal(signal.SIGALRM, lambda *_: handled.append(1))
file = os.open(os.environ['M'] + '/hello.txt', os.O_RDONLY)


def read():
    handled.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    word = os.read(file, 5)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print('handled' if handled else 'not handled', word, sep='\n')


read()
signal.siginterrupt(signal.SIGALRM, False)
read()
if os.fork() == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    os.read(file, 5)
print(os.waitstatus_to_exitcode(os.wait()[1]))
