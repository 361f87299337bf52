"""What really went over a wire: a capture that cannot lose packets unnoticed.

`Capture.watch()` yields what passed between its begin and its end. Its end is a mark that the test
itself sends down the same wire, so nothing is still on its way, and no time is waited.
"""
import contextlib
import dataclasses
import ipaddress
import os
import secrets
import socket
import struct
import threading
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_RCVBUFFORCE = 33
HOST, BROADCAST, MULTICAST, OTHERHOST, OUTGOING = range(5)
KEPT_BYTES = 512
MAX_PACKETS = 400_000
IPV4, ARP, IPV6 = 0x0800, 0x0806, 0x86DD
NAMES = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp", 58: "icmp6", 132: "sctp"}
# What an interface with IPv6 says of itself: neighbours, routers, multicast groups.
NEIGHBOUR_TYPES = {130, 131, 132, 133, 134, 135, 136, 143}


@dataclasses.dataclass(frozen=True)
class Packet:
    device: str
    kind: int  # HOST, BROADCAST, ... OUTGOING
    source: str
    to: str
    protocol: str  # "tcp", "udp", "icmp", ..., "ip-47", "arp", "ether-88cc"
    port: int = 0  # of the destination
    source_port: int = 0
    payload: bytes = b""
    flags: int = 0  # TCP

    @property
    def name(self):
        """The name that a DNS query asks for."""
        skip = 2 if self.protocol == "tcp" else 0
        return question(self.payload[skip:])

    @property
    def opens(self):
        """The first packet of a TCP connection."""
        return self.protocol == "tcp" and self.flags & 0x12 == 0x02


def question(message):
    labels, at = [], 12
    while at < len(message) and message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels).lower()


def read_transport(base, protocol, body, whole):
    name = NAMES.get(protocol, f"ip-{protocol}")
    if not whole or len(body) < 8:
        return Packet(*base, name, payload=body[:KEPT_BYTES])
    if name in ("tcp", "udp", "sctp"):
        source, port = struct.unpack_from("!HH", body)
        skip = {"tcp": (body[12] >> 4) * 4 if len(body) > 13 else 8, "udp": 8, "sctp": 12}[name]
        flags = body[13] if name == "tcp" and len(body) > 13 else 0
        return Packet(*base, name, port, source, body[skip:skip + KEPT_BYTES], flags)
    return Packet(*base, name, body[0] if name.startswith("icmp") else 0,
                  payload=body[:KEPT_BYTES])


def read_frame(frame, device, kind):
    ethertype, = struct.unpack_from("!H", frame, 12)
    body = frame[14:]
    if ethertype == IPV4 and len(body) >= 20:
        begin = (body[0] & 15) * 4
        whole = struct.unpack_from("!H", body, 6)[0] & 0x1FFF == 0
        base = (device, kind, socket.inet_ntoa(body[12:16]), socket.inet_ntoa(body[16:20]))
        return read_transport(base, body[9], body[begin:], whole)
    if ethertype == IPV6 and len(body) >= 40:
        protocol, begin = body[6], 40
        while protocol in (0, 43, 60) and len(body) >= begin + 8:  # hop by hop, routing, options
            protocol, begin = body[begin], begin + 8 + body[begin + 1] * 8
        base = (device, kind, str(ipaddress.ip_address(body[8:24])),
                str(ipaddress.ip_address(body[24:40])))
        return read_transport(base, protocol, body[begin:], True)
    if ethertype == ARP and len(body) >= 28:
        return Packet(device, kind, socket.inet_ntoa(body[14:18]), socket.inet_ntoa(body[24:28]), "arp",
                      payload=body[:28])
    return Packet(device, kind, frame[6:12].hex(), frame[:6].hex(), f"ether-{ethertype:04x}",
                  payload=body[:KEPT_BYTES])


def is_neighbourly(packet):
    """What machines on one wire say to find each other; it carries nothing of a sandbox further."""
    return packet.protocol == "arp" or (packet.protocol == "icmp6" and packet.port in NEIGHBOUR_TYPES)


def outside_of(packets, connections=(), names=(), resolver=None):
    """What a policy does not explain: neither a connection to one of `connections` (address, port), nor
    a question for one of `names` to the resolver, nor the answer to either."""
    left = []
    for packet in packets:
        if is_neighbourly(packet):
            continue
        if packet.protocol == "tcp" and ({(packet.to, packet.port), (packet.source, packet.source_port)} &
                                         set(connections)):
            continue
        if packet.protocol in ("udp", "tcp") and (resolver, 53) in (
                (packet.to, packet.port), (packet.source, packet.source_port)) and (
                packet.name in names or packet.protocol == "tcp" and (
                    packet.source == resolver or not packet.payload)):
            continue
        left.append(packet)
    return left


class Capture:
    """All frames of a device, or of every device of a namespace.

    Made by a thread that stands in that namespace. `mark(token)` has to send a packet that holds the
    token over the wire.
    """

    def __init__(self, mark, device=None):
        self._mark = mark
        every = socket.htons(ETH_P_ALL)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0 if device else every)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        if device:
            self._socket.bind((device, ETH_P_ALL))
        self._packets = []
        self._watchers = 0
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while not self._closed:
            try:
                frame, (device, _, kind, _, _) = self._socket.recvfrom(65535)
            except OSError:
                return
            if len(frame) < 14:
                continue
            packet = read_frame(frame, device, kind)
            with self._changed:
                if self._watchers == 0:  # A run is longer than what it asks about.
                    continue
                assert len(self._packets) < MAX_PACKETS, "more packets than a test of the wall makes"
                self._packets.append(packet)
                self._changed.notify_all()

    def _reach_mark(self):
        """Returns when everything that was sent before has been read."""
        cpus = os.sched_getaffinity(0)
        seen = 0
        for cpu in cpus:  # Each has a queue of its own for what comes over a virtual wire.
            token = secrets.token_bytes(16)
            with self._changed:
                begin = len(self._packets)
            os.sched_setaffinity(0, {cpu})
            try:
                self._mark(token)
            finally:
                os.sched_setaffinity(0, cpus)
            deadline = time.monotonic() + 20
            with self._changed:
                while not any(token in p.payload for p in self._packets[begin:]):
                    left = deadline - time.monotonic()
                    assert left > 0 and self._changed.wait(left), "the capture sees nothing"
                seen = len(self._packets)
        return seen

    def _kept(self, begin):
        lost = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        assert lost == 0, f"the capture lost {lost} packets: it proves nothing"
        with self._changed:
            packets = self._packets[begin:]
        return [p for p in packets if p.payload[:4] != MARK]

    @contextlib.contextmanager
    def watch(self):
        """Gives a list that is filled at the end: every packet in between."""
        seen = []
        with self._changed:
            self._watchers += 1
        try:
            begin = self._reach_mark()
            yield seen
            self._reach_mark()
            seen.extend(self._kept(begin))
        finally:
            with self._changed:
                self._watchers -= 1
                if self._watchers == 0:
                    self._packets.clear()

    def close(self):
        self._closed = True
        self._socket.close()


MARK = b"mark"
MARK_PORT = 9


def mark_by(sender, address):
    """Marks as datagrams of that socket."""
    def mark(token):
        sender.sendto(MARK + token, (address, MARK_PORT))
    return mark
