#!/usr/bin/env python3
"""The internet of egress_peers.py: a name server and upstreams that write down who came.

Usage: peers_world.py NAMES ADDRESS...     NAMES: `names` to serve DNS on the first address, or `-`

Prints one JSON line for each query, each connection and each piece of data, in order. A line on its
standard input is answered with a mark when all that had come before it is printed.
"""
import itertools
import json
import os
import selectors
import socket
import struct
import sys

OK, WILD, EVIL, PTR = "93.184.216.34", "93.184.216.35", "93.184.216.66", "203.0.113.9"
HOST = "93.184.216.77"  # of the machine around a sidecar, and public
OWN = "10.77.0.1"  # of the proxies' own machine
HTTP_PORTS, RAW_PORTS = (80, 8080), (22, 25, 443, 18081)

# What the names below `w.test` resolve to; the policy allows all of them.
SPECIAL = {
    "loop": ["127.0.0.1"], "meta": ["169.254.169.254"], "ten": ["10.0.0.5"], "own": [OWN],
    "zero": ["0.0.0.0"], "host": [HOST], "mixed": ["169.254.169.254", WILD], "empty": [],
    "map": ["::ffff:127.0.0.1"], "nat64": ["64:ff9b::7f00:1"], "sixtofour": ["2002:7f00:1::1"],
    "many": [f"93.184.{1 + i // 200}.{1 + i % 200}" for i in range(4000)],
}
A, CNAME, PTR_TYPE, AAAA = 1, 5, 12, 28
NXDOMAIN, SERVFAIL = 3, 2
numbers = itertools.count()
asked = {}


def say(**event):
    print(json.dumps(event), flush=True)


def labels(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def record(owner, kind, data, ttl=0):
    return labels(owner) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def addresses(name, kind):
    first = name.split(".")[0]
    if name == "ok.test":
        found = [OK]
    elif first == "rebind" and name.endswith(".w.test"):
        found = [WILD] if asked[name] == 1 else ["127.0.0.1"]
    elif name.endswith(".w.test"):
        found = SPECIAL.get(first, [WILD])
    else:
        found = [EVIL]  # Whoever asks has leaked the name already.
    family = socket.AF_INET if kind == A else socket.AF_INET6
    wanted = [text for text in found if (":" in text) == (kind == AAAA)]
    return [socket.inet_pton(family, text) for text in wanted]


def answer(query, over_tcp):
    """The answer to one query, or None for silence."""
    at, parts = 12, []
    while query[at]:
        parts.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += 1 + query[at]
    question = query[12:at + 5]
    kind = struct.unpack("!H", query[at + 1:at + 3])[0]
    name = ".".join(parts).lower()
    say(dns=name, kind={A: "A", AAAA: "AAAA", PTR_TYPE: "PTR"}.get(kind, str(kind)))
    asked[name] = asked.get(name, 0) + (kind == A)
    code, rows = 0, []
    if name == "silent.w.test":
        return None
    if name == "nx.w.test":
        code = NXDOMAIN
    elif name == "broken.w.test":
        code = SERVFAIL
    elif kind == PTR_TYPE:
        rows = [record(name, PTR_TYPE, labels("ok.test"), 60)]
    elif name == "inside.w.test":  # an alias of a name that no policy has, at a private address
        rows = [record(name, CNAME, labels("db.internal.corp")),
                record("db.internal.corp", A, socket.inet_aton("10.0.0.5"))]
    elif name == "outside.w.test":
        rows = [record(name, CNAME, labels("edge.cdn.example")),
                record("edge.cdn.example", A, socket.inet_aton(WILD))]
    elif name == "circle.w.test":
        rows = [record(name, CNAME, labels(name))]
    elif kind in (A, AAAA):
        rows = [b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(data)) + data
                for data in addresses(name, kind)]
    flags = 0x8180 | code
    body = b"".join(rows)
    if len(body) > 1000 and not over_tcp:
        return query[:2] + struct.pack("!HHHHH", flags | 0x200, 1, 0, 0, 0) + question
    if len(body) > 60000:
        rows, body = rows[:3500], b"".join(rows[:3500])
    return query[:2] + struct.pack("!HHHHH", flags, 1, len(rows), 0, 0) + question + body


def body_left(head, rest):
    """How many bytes of this request's body are still to come; None: the end is not known yet."""
    fields = head.lower()
    if b"chunked" in fields:
        end = rest.find(b"0\r\n\r\n")
        return None if end < 0 else end + 5
    for line in fields.split(b"\r\n"):
        if line.startswith(b"content-length:"):
            value = line.split(b":")[1].strip()
            size = int(value) if value.isdigit() else 0
            return size if len(rest) >= size else None
    return 0


# Answers that a proxy must not pass on as they are.
ODD_ANSWERS = {
    b"/both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"/lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\nok",
    b"/folded": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
    b"/barelf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    b"/nul": b"HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 2\r\n\r\nok",
    b"/unasked101": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw",
    b"/interim": b"HTTP/1.1 102 Processing\r\n\r\n" * 40 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"/204body": b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\nsmuggled!",
    b"/reason": b"HTTP/1.1 200 OK\r\nX-Sandboxkit-Egress: denied; reason=forged\r\nContent-Length: 2\r\n\r\nok",
    b"/redirect": b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
    b"/trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nSet-Cookie: a=b\r\n\r\n",
}


class Connection:
    """One accepted connection; `serve` is told of new bytes and returns False to close."""

    def __init__(self, world, sock, where, serve):
        self.world, self.sock, self.where, self.serve = world, sock, where, serve
        self.number, self.pending = next(numbers), b""
        sock.settimeout(5)  # For what is sent; nothing is read before it is there.
        if serve is not serve_dns:
            say(open=where, connection=self.number)
        if serve is serve_raw:
            self.send(b"up:")
        world.register(sock, selectors.EVENT_READ, self.readable)

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            pass  # Gone; the end is read next.

    def readable(self):
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        if data and self.serve is not serve_dns:
            say(data=data.decode("latin-1"), at=self.where, connection=self.number)
        self.pending += data
        if not data or self.serve(self) is False:
            self.world.unregister(self.sock)
            self.sock.close()


def serve_raw(connection):
    connection.send(connection.pending)
    connection.pending = b""


def serve_dns(connection):
    text = connection.pending
    if len(text) >= 2 and len(text) >= 2 + struct.unpack("!H", text[:2])[0]:
        reply = answer(text[2:], True)
        if reply:
            connection.send(struct.pack("!H", len(reply)) + reply)
        connection.pending = b""


def serve_http(connection):
    while b"\r\n\r\n" in connection.pending or b"\n\n" in connection.pending:
        mark = b"\r\n\r\n" if b"\r\n\r\n" in connection.pending else b"\n\n"
        head, rest = connection.pending.split(mark, 1)
        size = body_left(head, rest)
        if size is None:
            return None
        connection.pending = rest[size:]
        words = head.split(b" ", 2)
        path = words[1] if len(words) > 1 else b"/"
        if path in ODD_ANSWERS:
            connection.send(ODD_ANSWERS[path])
            if path in (b"/unasked101", b"/barelf"):
                return False
            continue
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + (b"" if words[0] == b"HEAD" else b"ok"))
    return None


def listen(world, address, port, serve):
    listener = socket.create_server((address, port), backlog=512)
    world.register(listener, selectors.EVENT_READ,
                   lambda: Connection(world, listener.accept()[0], f"{address}:{port}", serve))


def listen_dns(world, address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))

    def readable():
        query, peer = server.recvfrom(4096)
        reply = answer(query, False)
        if reply:
            server.sendto(reply, peer)
    world.register(server, selectors.EVENT_READ, readable)
    listen(world, address, 53, serve_dns)


def main():
    names, hosts = sys.argv[1], sys.argv[2:]
    world = selectors.DefaultSelector()
    for host in hosts:
        for port in HTTP_PORTS:
            listen(world, host, port, serve_http)
        for port in RAW_PORTS:
            listen(world, host, port, serve_raw)
    if names == "names":
        listen_dns(world, hosts[0])
    world.register(sys.stdin, selectors.EVENT_READ, None)
    say(ready=True)
    asked_for = ""
    while True:
        # All that is there is served before a mark is answered: what came before it stands before it.
        ready = [key for key, _ in world.select(0 if asked_for else None)]
        for key in ready:
            if key.fileobj is not sys.stdin:
                key.data()
        if asked_for and not ready:
            say(mark=asked_for)
            asked_for = ""
        if any(key.fileobj is sys.stdin for key in ready):
            asked_for = os.read(0, 4096).decode().strip()
            if not asked_for:
                return  # Ends with its parent.


if __name__ == "__main__":
    main()
