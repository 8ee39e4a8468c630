"""Runs a command at a terminal of its own, and types an answer whenever it asks ("? "):
at_terminal.py ANSWERS COMMAND..., where commas are between answers."""

import os
import pty
import signal
import sys

answers, command = sys.argv[1].split(","), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    # Who runs the tests in the background may ignore them.
    for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)
shown = b""
asked = 0
while True:
    try:
        got = os.read(terminal, 1000)
    except OSError:
        break
    if not got:
        break
    shown += got
    while shown.count(b"? ") > asked and asked < len(answers):
        os.write(terminal, answers[asked].encode().decode("unicode_escape").encode())
        asked += 1
print(shown.decode().replace("\r", ""), end="")
print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
