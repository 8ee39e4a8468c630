# nginx, started by root, whose workers are of another user: they serve files of directory $1. What
# root alone may read is refused.
set -eu
directory=$1
place=$(mktemp -d)
chmod 755 "$place"
cat > "$place/nginx.conf" <<END
user nobody nogroup;
worker_processes 2;
daemon off;
pid $place/pid;
error_log $place/errors;
events { worker_connections 64; }
http {
  access_log off;
  sendfile ${2:-on};
  open_file_cache max=10;
  client_body_temp_path $place/b; proxy_temp_path $place/p; fastcgi_temp_path $place/f; uwsgi_temp_path $place/u; scgi_temp_path $place/s;
  server { listen unix:$place/socket; root $directory; autoindex on; }
}
END
nginx -p "$place" -c "$place/nginx.conf" 2> "$place/started" &
server=$!
python3 - "$place/socket" "$@" << 'END'
import hashlib, os, socket, sys
for name in sys.argv[4:] * 3:
    while True:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(sys.argv[1])
            break
        except (FileNotFoundError, ConnectionRefusedError):
            os.sched_yield()  # until the server listens
    client.sendall(b"GET /%s HTTP/1.0\r\n\r\n" % name.encode())
    answer = b""
    while part := client.recv(1 << 16):
        answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    print(name, head.split(b"\r\n")[0].decode(), len(body), hashlib.md5(body).hexdigest() if b" 200 " in head else "")
END
kill "$server"
wait "$server" || true
grep -vE 'Permission denied|No such file' "$place/errors" | grep -E 'emerg|alert|crit' || true
rm -r "$place"
