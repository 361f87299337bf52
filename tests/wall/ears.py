"""Services of the machine that hosts the sandboxes, as somebody leaves them open on every address."""
import socket
import threading

PORT = 8899
ABSTRACT = "machine-service"


class Ears:
    """Everything that reached the machine: (address it was sent to, if known; what was said)."""

    def __init__(self):
        self.heard = []
        self._open = []
        for family, every in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self._listen(family, kind, (every, PORT))
        self._listen(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + ABSTRACT)

    def _listen(self, family, kind, address):
        opened = socket.socket(family, kind)
        if kind == socket.SOCK_STREAM and family != socket.AF_UNIX:
            # What an earlier test's connections left behind waits for minutes.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
        self._open.append(opened)
        if kind == socket.SOCK_STREAM:
            opened.listen(64)
        serve = self._accept if kind == socket.SOCK_STREAM else self._receive
        threading.Thread(target=serve, args=(opened,), daemon=True).start()

    def _accept(self, opened):
        while True:
            try:
                connection, _ = opened.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            connection.settimeout(5)
            said = b""
            try:
                said = connection.recv(200)
                connection.sendall(b"heard")
            except OSError:
                pass
            self.heard.append(said.decode("latin-1"))

    def _receive(self, opened):
        while True:
            try:
                said, source = opened.recvfrom(200)
            except OSError:
                return
            if source is None:
                return
            self.heard.append(said.decode("latin-1"))
            try:
                opened.sendto(b"heard", source)
            except OSError:
                pass

    def close(self):
        for opened in self._open:
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            opened.close()
