#!/usr/bin/env python3
"""Who does not know the secret of a back end is sent away by its synchronisation service.

plfs_secret.py BACKEND
"""
import hashlib
import hmac
import os
import pathlib
import socket
import struct
import sys

place = pathlib.Path(sys.argv[1]) / ".culvert-sync"
host, port = (place / "lease").read_text().split("\n")[1].split()[1].rsplit(":", 1)
secret = (place / "secret").read_bytes()
# A request to let go of a file.
REQUEST = b"CvS2" + bytes([3, 0, 0, 0]) + bytes(40)


def connected():
    link = socket.create_connection((host, int(port)))
    link.settimeout(20)
    return link


def receive(link, count):
    have = b""
    while len(have) < count:
        try:
            more = link.recv(count - len(have))
        except ConnectionResetError:
            more = b""
        if not more:
            return have
        have += more
    return have


def asked(key, changed=False):
    """The answer to one request of somebody who knows `key`; none: he was sent away."""
    link, nonce = connected(), os.urandom(32)
    link.sendall(b"CvH1" + nonce)
    challenge = receive(link, 64)
    both = nonce + challenge[:32]
    known = hmac.compare_digest(hmac.digest(key, b"service" + both, hashlib.sha256), challenge[32:])
    assert known == (key == secret), "a service shows that it knows the secret"
    session = hmac.digest(key, b"key" + both, hashlib.sha256)
    tag = hmac.digest(session, b"\0" + bytes(8) + REQUEST, hashlib.sha256)[:16]
    if changed:
        tag = bytes([tag[0] ^ 1]) + tag[1:]
    frame = struct.pack("<H", len(REQUEST)) + REQUEST + tag
    link.sendall(hmac.digest(key, b"writer" + both, hashlib.sha256) + frame)
    answer = receive(link, 2 + 24 + 16)
    if not answer:
        return None
    message = answer[2:-16]
    tag = hmac.digest(session, b"\1" + bytes(8) + message, hashlib.sha256)[:16]
    assert tag == answer[-16:], "an answer has a tag"
    return message


for nonsense in (REQUEST, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", b"CvH1" + bytes(33)):
    link = connected()
    link.sendall(nonsense)
    assert receive(link, 1) == b"", nonsense
assert asked(b"another secret of the same length") is None
assert asked(secret, changed=True) is None
assert asked(secret)[:5] == b"CvS2\x03", "nobody holds it"
assert (place / "secret").stat().st_mode & 0o777 == 0o600
print("refused")
