"""What package managers and other tools reach on the internet that is not one: `*.tools.test`.

Everything is made here: a wheel, an npm package, a Debian package, a git repository.
"""
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import zipfile

from spaces import run

BIG_BYTES = 200 << 20
GIT_BACKEND = "/usr/lib/git-core/git-http-backend"
WEBSOCKET_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CHUNK = bytes(range(256)) * 1024


def wheel():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("hello_wheel/__init__.py", "GREETING = 'hello from a wheel'\n")
        folder = "hello_wheel-1.0.dist-info/"
        archive.writestr(folder + "METADATA", "Metadata-Version: 2.1\nName: hello-wheel\nVersion: 1.0\n")
        archive.writestr(folder + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                                           "Tag: py3-none-any\n")
        archive.writestr(folder + "RECORD", "".join(
            f"{name},,\n" for name in [*archive.namelist(), folder + "RECORD"]))
    return packed.getvalue()


def npm_package():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (("package.json", json.dumps({"name": "hello-npm", "version": "1.0.0"})),
                           ("index.js", "module.exports = 'hello from npm'\n")):
            entry = tarfile.TarInfo("package/" + name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def debian_package(folder):
    root = folder / "hello-tools"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text("Package: hello-tools\nVersion: 1.0\nArchitecture: all\n"
                                             "Maintainer: Nobody <nobody@tools.test>\nDescription: hello\n")
    (root / "usr" / "share").mkdir(parents=True)
    (root / "usr" / "share" / "hello-tools").write_text("hello from apt\n")
    run("dpkg-deb", "--root-owner-group", "--build", str(root), str(folder / "hello.deb"))
    return (folder / "hello.deb").read_bytes()


def git_repository(folder):
    bare, work = folder / "hello.git", folder / "work"
    run("git", "init", "-q", "--bare", "-b", "main", str(bare))
    run("git", "init", "-q", "-b", "main", str(work))
    (work / "README").write_text("hello from git\n")
    # More than one packet of everything, so that the answer is streamed.
    (work / "noise").write_bytes(os.urandom(3 << 20))
    run("git", "-C", str(work), "add", ".")
    run("git", "-C", str(work), "-c", "user.name=n", "-c", "user.email=n@tools.test", "commit", "-qm", "first")
    run("git", "-C", str(work), "push", "-q", str(bare), "main")
    run("git", "-C", str(bare), "config", "http.receivepack", "true")


def body_of(request):
    """The whole body of a request, with either kind of framing."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    parts = []
    while size := int(request.rfile.readline(64), 16):
        parts.append(request.rfile.read(size))
        request.rfile.readline(8)
    request.rfile.readline(8)
    return b"".join(parts)


def send(request, body, status=200, **headers):
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


class Mirrors:
    """Answers for hosts of `internet.web.hosts`, in clear and over TLS."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._wheel, self._npm = wheel(), npm_package()
        self._deb = debian_package(self._folder)
        git_repository(self._folder)
        self.connections = set()
        self.hosts = {"git.tools.test": self._git, "pypi.tools.test": self._pypi, "npm.tools.test": self._npm_registry,
                      "apt.tools.test": self._apt, "files.tools.test": self._files}

    def _git(self, request):
        path, _, query = request.path.partition("?")
        body = body_of(request)
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        done = subprocess.run([GIT_BACKEND], input=body, capture_output=True, check=True, env={
            "GIT_PROJECT_ROOT": str(self._folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": request.command, "REMOTE_ADDR": "sandbox",
            "REMOTE_USER": "n", "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "PATH": os.environ["PATH"],
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(fields.pop("Status", "200").split()[0])
        send(request, answer, status, **fields)

    def _pypi(self, request):
        name = "hello_wheel-1.0-py3-none-any.whl"
        if request.path == "/simple/hello-wheel/":
            page = f'<!DOCTYPE html><html><body><a href="/files/{name}#sha256={sha256(self._wheel)}">{name}</a>'
            return send(request, page.encode(), Content_Type="text/html")
        if request.path == f"/files/{name}":
            return send(request, self._wheel)
        return send(request, b"no such project\n", 404)

    def _npm_registry(self, request):
        scheme = "https" if hasattr(request.connection, "cipher") else "http"
        if request.path == "/hello-npm":
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(self._npm).digest()).decode()
            return send(request, json.dumps({
                "name": "hello-npm", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
                    "name": "hello-npm", "version": "1.0.0", "dist": {
                        "integrity": integrity,
                        "tarball": f"{scheme}://npm.tools.test/hello-npm-1.0.0.tgz"}}}}).encode(),
                        Content_Type="application/json")
        if request.path == "/hello-npm-1.0.0.tgz":
            return send(request, self._npm)
        return send(request, b"{}", 404)

    def _apt(self, request):
        listing = (f"Package: hello-tools\nVersion: 1.0\nArchitecture: all\nFilename: ./hello.deb\nSize: {len(self._deb)}\n"
                   f"SHA256: {sha256(self._deb)}\nMaintainer: Nobody <nobody@tools.test>\nDescription: hello\n\n").encode()
        release = f"Origin: test\nSHA256:\n {sha256(listing)} {len(listing)} Packages\n".encode()
        known = {"/./Packages": listing, "/./Release": release, "/./hello.deb": self._deb}
        path = request.path if request.path.startswith("/./") else "/." + request.path
        if path in known:
            return send(request, known[path])
        return send(request, b"", 404)

    def _files(self, request):
        self.connections.add(request.client_address)
        serve = {"/hello": lambda r: send(r, b"hello from files\n"), "/big": self._big, "/upload": self._upload,
                 "/gzip": lambda r: send(r, gzip.compress(b"hello from gzip\n"), Content_Encoding="gzip"),
                 "/chunked": self._chunked, "/closing": self._closing, "/socket": self._websocket}.get(request.path)
        return serve(request) if serve else send(request, b"no such file\n", 404)

    def _big(self, request):
        request.send_response(200)
        request.send_header("Content-Length", str(BIG_BYTES))
        request.end_headers()
        for _ in range(BIG_BYTES // len(CHUNK)):
            request.wfile.write(CHUNK)

    def _upload(self, request):
        body = body_of(request)
        send(request, f"{len(body)} {sha256(body)}\n".encode())

    def _chunked(self, request):
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for i in range(100):
            line = f"chunk {i}\n".encode()
            request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        request.wfile.write(b"0\r\n\r\n")

    def _closing(self, request):
        """An answer that only its connection's end ends."""
        request.send_response(200)
        request.send_header("Connection", "close")
        request.end_headers()
        request.wfile.write(b"until the end\n")

    def _websocket(self, request):
        """Sends a short text message back, once, unmasked."""
        key = request.headers["Sec-WebSocket-Key"] + WEBSOCKET_MAGIC
        request.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), (
                "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            request.send_header(name, value)
        request.end_headers()
        head = request.rfile.read(2)
        mask = request.rfile.read(4)
        text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(request.rfile.read(head[1] & 0x7f)))
        request.wfile.write(bytes([0x81, len(text)]) + text + b"\x88\0")
        request.wfile.flush()
        request.close_connection = True


def sha256(data):
    return hashlib.sha256(data).hexdigest()
