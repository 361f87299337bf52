"""Attacks 33, 35 and 42 of the list, end to end: what goes through a CONNECT, in order, to its end, and under which name."""
import os
import socket
import threading

import pytest

from house import wait_for
from internet import ALLOWED
from trying import proxy_pid
from wall_house import Sandbox

PORT = 8899
TICKS = os.sysconf("SC_CLK_TCK")
# Opens a tunnel to t.m.test:8899; `early` goes out in one packet with the CONNECT.
TUNNEL = """
import json, os, socket, struct, sys, time
host, port = os.environ["HTTP_PROXY"].removeprefix("http://").rstrip("/").rsplit(":", 1)
def tunnel(early=b"", to="t.m.test:8899"):
    s = socket.create_connection((host, int(port)), 20)
    s.settimeout(20)
    s.sendall(f"CONNECT {to} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode() + early)
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += s.recv(1)
    return s, head.decode()
def rest(s):
    got = b""
    try:
        while more := s.recv(65536):
            got += more
    except OSError as problem:
        return got.decode(), type(problem).__name__
    return got.decode(), "end"
"""


class Peer:
    """One connection after another, each served by `serve`; what it gave is kept."""

    def __init__(self, internet, serve):
        self.done = []
        self._listener = internet.listen(PORT)
        self._serve = serve
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(20)
                try:
                    self.done.append(self._serve(connection))
                except OSError as problem:
                    self.done.append(type(problem).__name__)

    def first(self):
        return wait_for(lambda: self.done, 30, "the peer's end")[0]

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def peer(internet):
    internet.dns.answers["t.m.test"] = [ALLOWED]
    opened = []

    def serve(function):
        opened.append(Peer(internet, function))
        return opened[0]
    yield serve
    for each in opened:
        each.close()


def everything(connection):
    got = b""
    while more := connection.recv(65536):
        got += more
    return got


def inside(sandbox, program):
    return sandbox.python(TUNNEL + program, timeout=60)


def test_33_what_comes_with_the_connect_arrives_first_and_whole(internet, walled, peer):
    served = peer(everything)
    with internet.only((ALLOWED, PORT), names=["t.m.test"]):
        inside(walled, "s, _ = tunnel(bytes(range(256)) * 20)\ns.sendall(b'later')\ns.close()\nprint(1)")
        assert served.first() == bytes(range(256)) * 20 + b"later"


def test_35_an_end_of_one_direction_leaves_the_other(internet, walled, peer):
    def serve(connection):
        got = everything(connection)
        connection.sendall(b"x" * 100_000 + b"last")
        return got
    served = peer(serve)
    with internet.only((ALLOWED, PORT), names=["t.m.test"]):
        told = inside(walled, "s, _ = tunnel()\ns.sendall(b'question')\ns.shutdown(1)\nprint(json.dumps(rest(s)))")
    assert served.first() == b"question"
    assert told == ["x" * 100_000 + "last", "end"]


RESET = "s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\ns.close()\n"


def test_35_a_reset_of_either_side_closes_the_other(internet, walled, peer):
    def reset(connection):
        connection.recv(8)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    served = peer(lambda connection: reset(connection) if len(served.done) == 0 else everything(connection))
    with internet.only((ALLOWED, PORT), names=["t.m.test"]):
        told = inside(walled, "s, _ = tunnel(b'question')\nprint(json.dumps(rest(s)))")
        assert told[0] == "" and told[1] in ("end", "ConnectionResetError"), told
        inside(walled, "s, _ = tunnel(b'question')\n" + RESET + "print(1)")
        wait_for(lambda: len(served.done) == 2, 30, "the end of the upstream")
    assert served.done[1] in (b"question", b"", "ConnectionResetError"), served.done


def busy_seconds(pid):
    """Of the processor, by one process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def test_35_tunnels_that_are_half_closed_cost_no_time(internet, walled, peer):
    """A hundred of them, closed on our side; nobody sends anything for three seconds."""
    held = []

    def serve(connection):
        held.append(connection.dup())  # Ours has ended; this one stays open.
        return everything(connection)
    peer(serve)
    pid = proxy_pid(walled)
    began = busy_seconds(pid)
    told = inside(walled, "held = [tunnel()[0] for _ in range(100)]\n[s.shutdown(1) for s in held]\nheld[0].settimeout(3)\n"
                          "begin = time.monotonic()\nprint(json.dumps([rest(held[0])[1], time.monotonic() - begin]))")
    for each in held:
        each.close()
    assert told[0] == "TimeoutError" and told[1] >= 2.9, told
    assert len(held) == 100
    assert busy_seconds(pid) - began < 1.0, "the proxy was busy with tunnels that rest"


TLS = """
import ssl
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def greet(name):
    s, head = tunnel(to="ok.test:443")
    try:
        with context.wrap_socket(s, server_hostname=name) as secure:
            secure.sendall(b"GET / HTTP/1.1\\r\\nHost: " + name.encode() + b"\\r\\nConnection: close\\r\\n\\r\\n")
            return rest(secure)[0].rpartition("\\r\\n\\r\\n")[2]
    except OSError as problem:
        return "closed: " + str(problem)
print(json.dumps([greet("evil.test"), greet("ok.test")]))
"""


def decisions(house, sandbox):
    """The proxy's log."""
    sidecar = sandbox.container("egress")
    if sidecar:
        return str(house.own.call("GET", f"/containers/{sidecar['Id']}/logs?stdout=1"))
    return "".join(path.read_text() for path in
                   sorted((house.worker_folder / "sandboxes" / sandbox.id / "egress").glob("decisions.*.log")))


def test_42_a_hello_with_another_name_is_closed_in_strict_mode_before_it_leaves(internet, house):
    status, made = house.create(egress={"allowed_domains": ["ok.test"], "strict_tls": True})
    assert status == 201, made
    sandbox = Sandbox(house, made)
    try:
        with internet.only((ALLOWED, 443), names=["ok.test"]) as seen:
            fronted, right = inside(sandbox, TLS)
        assert fronted.startswith("closed") and right == f"reached {ALLOWED}\n", (fronted, right)
        assert not [packet for packet in seen if b"evil.test" in packet.payload], "the other name left"
        assert [line["reason"] for line in sandbox.denied()] == ["sni_mismatch"]
    finally:
        sandbox.delete()


def test_42_a_hello_with_another_name_is_written_down_with_both_in_default_mode(internet, house, walled):
    with internet.only((ALLOWED, 443), names=["ok.test"]) as seen:
        fronted, right = inside(walled, TLS)
    assert fronted == right == f"reached {ALLOWED}\n"
    assert [packet for packet in seen if b"evil.test" in packet.payload]  # So the strict test would see it.
    wait_for(lambda: [line for line in decisions(house, walled).split("\n")
                      if "sni_other" in line and "evil.test" in line and "ok.test" in line], 30, "the line")
