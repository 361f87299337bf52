"""An internet that is not one: a namespace that answers for every address there is.

    machine (network namespace of engine, controller, worker)      outside (another one)
      docker0, bridges of walls   out0 93.184.215.2  ----------- in0 93.184.215.1  every other address

Every packet that leaves the machine passes `in0`, where the capture stands. Nothing of it reaches a real
network: there is no other interface in either.
"""
import contextlib
import http.server
import pathlib
import socket
import ssl
import threading

from names import NameServer
from packets import MARK_PORT, Capture, mark_by, outside_of
from spaces import Moved, Space, run, sysctl

MACHINE, GATEWAY = "93.184.215.2", "93.184.215.1"
MACHINE_6, GATEWAY_6 = "2606:2800:215::2", "2606:2800:215::1"
MACHINE_CORP, GATEWAY_CORP = "10.20.0.2", "10.20.0.1"
DOCKER_6 = "2606:2800:221::/64"
DNS = "93.184.216.53"
LOOPBACK_DNS = "127.0.0.53"
ALLOWED = "93.184.216.10"
ALLOWED_6 = "2606:2800:216::10"
EVIL = "93.184.217.66"
METADATA = "169.254.169.254"
CORP = "10.66.0.5"
SYN = 2


def bound(family, kind, address, port):
    opened = socket.socket(family, kind)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    opened.bind((address, port))
    return opened


def name_server(address):
    """In the namespace of the calling thread."""
    return NameServer(bound(socket.AF_INET, socket.SOCK_DGRAM, address, 53),
                      bound(socket.AF_INET, socket.SOCK_STREAM, address, 53))


def is_end_of_kept(packet):
    """Of a connection to what every policy here allows, which a proxy kept since an earlier test."""
    return (packet.protocol == "tcp" and not packet.payload and not packet.flags & SYN and
            (ALLOWED, 80) in ((packet.to, packet.port), (packet.source, packet.source_port)))


class Web:
    """A web server for every address of a namespace; `visits` are (address, port, Host, path).

    `routes[path]` and `hosts[name]` may answer for themselves: functions of the request handler.
    Everything else is told which address was reached.
    """

    def __init__(self, listener, context=None):
        self.visits = []
        self.routes = {}
        self.hosts = {}
        self._server = http.server.ThreadingHTTPServer(listener.getsockname()[:2], self._handler(),
                                                       bind_and_activate=False)
        self._server.socket.close()
        listener.listen(128)
        self._server.socket = context.wrap_socket(listener, server_side=True,
                                                  do_handshake_on_connect=False) if context else listener
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self):
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 20

            def respond(self):
                address, port = self.connection.getsockname()[:2]
                web.visits.append((address, port, self.headers.get("Host"), self.path))
                route = web.routes.get(self.path) or web.hosts.get((self.headers.get("Host") or "").split(":")[0])
                if route:
                    return route(self)
                self.send_text(200, f"reached {address}\n")

            do_GET = do_POST = do_PUT = do_HEAD = respond

            def send_text(self, status, text, **headers):
                body = text.encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Internet:
    """The main thread stands in the machine's namespace until `close`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._machine = Moved()
        self.outside = Space()
        self._wire()
        marker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mark = mark_by(marker, GATEWAY)
        self.capture = self.outside.call(Capture, mark, "in0")
        self.inner_capture = Capture(mark)
        # Takes the capture's marks, which a closed port would answer.
        self._sink = self.outside.call(bound, socket.AF_INET, socket.SOCK_DGRAM, GATEWAY, MARK_PORT)
        self.dns = self.outside.call(name_server, DNS)
        # The machine's own resolver, where an engine may carry a sandbox's names to.
        self.machine_dns = name_server(LOOPBACK_DNS)
        self.machine_dns.answers = self.dns.answers
        context = self._tls()
        self.web = self.serve_web(80)
        self.web_6 = self.serve_web(80, socket.AF_INET6)
        self.tls = self.serve_web(443, context=context)

    def _wire(self):
        run("ip", "link", "add", "out0", "type", "veth", "peer", "name", "in0", "netns", str(self.outside.id))
        for address, gateway in ((MACHINE, GATEWAY), (MACHINE_CORP, GATEWAY_CORP)):
            run("ip", "address", "add", f"{address}/24", "dev", "out0")
            self.outside.run("ip", "address", "add", f"{gateway}/24", "dev", "in0")
        run("ip", "address", "add", f"{MACHINE_6}/64", "dev", "out0", "nodad")
        self.outside.run("ip", "address", "add", f"{GATEWAY_6}/64", "dev", "in0", "nodad")
        run("ip", "link", "set", "out0", "up")
        self.outside.run("ip", "link", "set", "in0", "up")
        run("ip", "route", "add", "default", "via", GATEWAY)
        run("ip", "-6", "route", "add", "default", "via", GATEWAY_6)
        # Every address is ours but those on the wire, or answers would never find back to the machine.
        # In the local table: only what is in it may be the source of an answer.
        for version, every, wire in (("-4", "0.0.0.0/0", ("93.184.215.0/24", "10.20.0.0/24")),
                                     ("-6", "::/0", ("2606:2800:215::/64", "fe80::/10", DOCKER_6))):
            # A rule of our own parts the kernel's local and main tables, else nothing goes on after `throw`.
            self.outside.run("ip", version, "rule", "add", "pref", "40000", "lookup", "main")
            for block in wire:
                self.outside.run("ip", version, "route", "add", "throw", block, "table", "local")
            self.outside.run("ip", version, "route", "add", "local", every, "dev", "lo", "table", "local")
        self.outside.run("ip", "-6", "route", "add", DOCKER_6, "via", MACHINE_6)
        self.outside.run("ip", "address", "add", f"{DNS}/32", "dev", "lo")
        self.outside.call(sysctl, "net/ipv4/icmp_echo_ignore_broadcasts", 0)

    def _tls(self):
        names = "DNS:*.test,DNS:*.ok.test,DNS:ok.test,DNS:evil.test,DNS:packages.test,DNS:*.tools.test"
        self.certificate = self.folder / "outside.pem"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=outside", "-addext", f"subjectAltName={names}",
            "-keyout", str(self.folder / "outside.key"), "-out", str(self.certificate))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.folder / "outside.key")
        return context

    def serve_web(self, port, family=socket.AF_INET, context=None):
        """A web server outside, on that port of every address."""
        every = "0.0.0.0" if family == socket.AF_INET else "::"
        return Web(self.outside.call(bound, family, socket.SOCK_STREAM, every, port), context)

    def listen(self, port, kind=socket.SOCK_STREAM):
        """A bare socket outside, on that port of every IPv4 address."""
        opened = self.outside.call(bound, socket.AF_INET, kind, "0.0.0.0", port)
        if kind == socket.SOCK_STREAM:
            opened.listen(128)
        return opened

    @contextlib.contextmanager
    def only(self, *connections, names=()):
        """Holds that nothing crosses the wire to the outside but what is named, by the capture."""
        with self.capture.watch() as seen:
            yield seen
        left = [packet for packet in outside_of(seen, connections, names, DNS) if not is_end_of_kept(packet)]
        assert left == [], f"outside of the policy: {left}"

    def watch(self):
        """Every packet that crosses the wire to the outside, in both directions."""
        return self.capture.watch()

    def close(self):
        for each in (self.web, self.web_6, self.tls, self.dns, self.machine_dns, self.capture,
                     self.inner_capture, self._sink):
            each.close()
        self.outside.close()
        self._machine.close()
