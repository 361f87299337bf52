#!/usr/bin/env python3
"""The internet of egress_peers.py: a name server and upstreams that write down who came.

Usage: peers_world.py NAMES ADDRESS...     NAMES: `names` to serve DNS on the first address, or `-`

Prints one JSON line for each query, each connection and each piece of data, in order.
"""
import itertools
import json
import socket
import struct
import sys
import threading

OK, WILD, EVIL, PTR = "93.184.216.34", "93.184.216.35", "93.184.216.66", "203.0.113.9"
OWN = "10.77.0.1"  # of the proxies' own machine
HTTP_PORTS, RAW_PORTS = (80, 8080), (22, 25, 443, 18081)

# What the names below `w.test` resolve to; the policy allows all of them.
SPECIAL = {
    "loop": ["127.0.0.1"], "meta": ["169.254.169.254"], "ten": ["10.0.0.5"], "own": [OWN],
    "zero": ["0.0.0.0"], "mixed": ["169.254.169.254", WILD], "empty": [],
    "map": ["::ffff:127.0.0.1"], "nat64": ["64:ff9b::7f00:1"], "sixtofour": ["2002:7f00:1::1"],
    "many": [f"93.184.{1 + i // 200}.{1 + i % 200}" for i in range(4000)],
}
A, CNAME, PTR_TYPE, AAAA = 1, 5, 12, 28
NXDOMAIN, SERVFAIL = 3, 2
lock = threading.Lock()
connections = itertools.count()
asked = {}


def say(**event):
    with lock:
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


def serve_udp(address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        query, peer = server.recvfrom(4096)
        reply = answer(query, False)
        if reply:
            server.sendto(reply, peer)


def serve_dns_stream(connection):
    with connection:
        head = connection.recv(2)
        if len(head) == 2:
            reply = answer(connection.recv(struct.unpack("!H", head)[0]), True)
            if reply:
                connection.sendall(struct.pack("!H", len(reply)) + reply)


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


def serve_http(connection, note):
    pending = b""
    while True:
        data = connection.recv(65536)
        if not data:
            return
        note(data)
        pending += data
        while b"\r\n\r\n" in pending or b"\n\n" in pending:
            mark = b"\r\n\r\n" if b"\r\n\r\n" in pending else b"\n\n"
            head, rest = pending.split(mark, 1)
            size = body_left(head, rest)
            if size is None:
                break
            pending = rest[size:]
            words = head.split(b" ", 2)
            path = words[1] if len(words) > 1 else b"/"
            if path in ODD_ANSWERS:
                connection.sendall(ODD_ANSWERS[path])
                if path in (b"/unasked101", b"/barelf"):
                    return
                continue
            body = b"" if words[0] == b"HEAD" else b"ok"
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)


def serve_raw(connection, note):
    connection.sendall(b"up:")
    while True:
        data = connection.recv(65536)
        if not data:
            return
        note(data)
        connection.sendall(data)


def serve_one(connection, where, number, serve):
    def note(data):
        say(data=data.decode("latin-1"), at=where, connection=number)
    with connection:
        connection.settimeout(20)
        try:
            serve(connection, note)
        except OSError:
            pass


def serve_tcp(address, port, serve):
    listener = socket.create_server((address, port), backlog=512)
    while True:
        connection, _ = listener.accept()
        where = f"{address}:{port}"
        number = next(connections)
        if port != 53:
            say(open=where, connection=number)
        target = (serve_dns_stream, (connection,)) if port == 53 else \
            (serve_one, (connection, where, number, serve))
        threading.Thread(target=target[0], args=target[1], daemon=True).start()


def main():
    names, hosts = sys.argv[1], sys.argv[2:]
    jobs = [(serve_tcp, (host, port, serve)) for host in hosts
            for ports, serve in ((HTTP_PORTS, serve_http), (RAW_PORTS, serve_raw)) for port in ports]
    if names == "names":
        jobs += [(serve_udp, (hosts[0],)), (serve_tcp, (hosts[0], 53, None))]
    for job, arguments in jobs:
        threading.Thread(target=job, args=arguments, daemon=True).start()
    say(ready=True)
    sys.stdin.read()  # Ends with its parent.


if __name__ == "__main__":
    main()
