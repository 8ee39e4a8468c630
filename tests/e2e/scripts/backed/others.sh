cd @base@/target
ask='import os
try: os.fsync(7)
except OSError as error: print(error, flush=True)'
exec 7<>f
echo hello >&7
python3 -c "$ask"
env -i "$(command -v python3)" -c "$ask"
(exec python3 -c "$ask")
python3 - <<'PY'
import array, os, socket
ours, theirs = socket.socketpair()
if os.fork() == 0:
    os.close(7)
    _, message, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
    received = array.array("i", message[0][2])[0]
    try:
        os.fsync(received)
    except OSError as error:
        print(error, flush=True)
    os._exit(0)
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [7]))])
os.wait()
PY
