"""A name server of the tests: it can lie, change its mind, be silent, and it writes everything down."""
import dataclasses
import ipaddress
import socket
import struct
import threading

A, CNAME, AAAA = 1, 5, 28
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
PLAIN_UDP_BYTES = 1232
SILENT = object()


class Lie:
    """Whatever `make(message, question, transport)` makes of a query: messages to send, in that order."""

    def __init__(self, make):
        self.make = make


def message_of(query, question, records=(), *, number=None, flags=0x8180, count=None, more=b""):
    """A message that may contradict itself: `count` answers, another `number` than the query's."""
    head = number if number is not None else query[:2]
    counts = struct.pack("!HHHHH", flags, 1, len(records) if count is None else count, 0, 0)
    return head + counts + question + b"".join(records) + more


@dataclasses.dataclass(frozen=True)
class Query:
    name: str
    kind: int
    transport: str
    source: str


def encode_name(name):
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split(".") if label) + b"\0"


def encode_record(owner, answer, ttl):
    """`answer` is an address, or a name: then a CNAME."""
    try:
        address = ipaddress.ip_address(answer)
    except ValueError:
        kind, data = CNAME, encode_name(answer)
    else:
        kind, data = (A if address.version == 4 else AAAA), address.packed
    return owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


class NameServer:
    """Serves UDP and TCP on sockets that were opened in the namespace where it is to be reached.

    `answers[name]` is a list of addresses and names (a CNAME; what follows belongs to the new name), a
    response code, SILENT, a Lie, or a function of the number of queries for that name so far that gives one of
    these. A name that is not there, and is below no `*.` one, does not exist.
    """

    def __init__(self, udp, tcp):
        self.answers = {}
        self.queries = []
        self.ttl = 0
        self._udp, self._tcp = udp, tcp
        self._lock = threading.Lock()
        tcp.listen(64)
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    def asked(self):
        return [query.name for query in self.queries]

    def _serve_udp(self):
        while True:
            try:
                message, source = self._udp.recvfrom(65535)
            except OSError:
                return
            if source is None:  # Shut down.
                return
            for reply in self._replies(message, "udp", source[0]):
                self._udp.sendto(reply, source)

    def _serve_tcp(self):
        while True:
            try:
                connection, source = self._tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_connection, args=(connection, source[0]), daemon=True).start()

    def _serve_connection(self, connection, source):
        with connection, connection.makefile("rb") as reader:
            connection.settimeout(10)
            try:
                while head := reader.read(2):
                    for reply in self._replies(reader.read(struct.unpack("!H", head)[0]), "tcp", source):
                        connection.sendall(struct.pack("!H", len(reply)) + reply)
            except OSError:
                return

    def _find(self, name):
        with self._lock:
            count = sum(1 for query in self.queries if query.name == name)
            answer = self.answers.get(name)
        labels = name.split(".")
        for i in range(1, len(labels)):
            answer = self.answers.get("*." + ".".join(labels[i:])) if answer is None else answer
        return answer(count) if callable(answer) else answer

    def _replies(self, message, transport, source):
        if len(message) < 17:
            return []
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
            at += 1 + message[at]
        name = ".".join(labels).lower()
        kind, = struct.unpack_from("!H", message, at + 1)
        asked = message[12:at + 5]
        found = self._find(name)
        with self._lock:
            self.queries.append(Query(name, kind, transport, source))
        if found is SILENT:
            return []
        if isinstance(found, Lie):
            return found.make(message, asked, transport)
        code, records = (found, []) if isinstance(found, int) else (NXDOMAIN, []) if found is None else (
            NOERROR, self._records(found, kind))
        head = message[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        reply = head + asked + b"".join(records)
        if transport == "udp" and len(reply) > PLAIN_UDP_BYTES:
            return [message[:2] + struct.pack("!HHHHH", 0x8380, 1, 0, 0, 0) + asked]
        return [reply]

    def _records(self, found, kind):
        records, owner = [], b"\xc0\x0c"
        for answer in found:
            record = encode_record(owner, answer, self.ttl)
            its_kind, = struct.unpack_from("!H", record, len(owner))
            if its_kind == CNAME:
                owner = encode_name(answer)
            if its_kind in (CNAME, kind):
                records.append(record)
        return records

    def close(self):
        for each in (self._udp, self._tcp):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
