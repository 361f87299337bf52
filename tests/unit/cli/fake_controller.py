"""A controller that answers as the documented API does, from memory, for tests of the command."""
import base64
import http.server
import json
import re
import socketserver
import threading
import urllib.parse


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # A client that goes away is what some tests are about.


class FakeController:
    """`calls` holds (method, path, body) in order; `sandboxes` what lives; `files` what was put."""

    def __init__(self):
        self.calls = []
        self.sandboxes = {}
        self.files = {}
        self.by_request_key = {}
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.exec_started = threading.Event()
        self.create_started = threading.Event()
        self.hold_create = False
        self.events = None
        self.refusal = None
        self.inputs = []
        self.input_closed = threading.Event()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                fake.handle(self)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    # -- wire ------------------------------------------------------------------------------------
    def body_of(self, request):
        if request.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(request.rfile.readline().split(b";")[0], 16):
                data += request.rfile.read(size)
                request.rfile.readline()
            request.rfile.readline()
            return data
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))

    def answer(self, request, status, value=None, raw=None):
        data = raw if raw is not None else (b"" if value is None else json.dumps(value).encode())
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def refuse(self, request, status, name, message, **more):
        self.answer(request, status, {"code": status, "error": name, "message": message, **more})

    def stream(self, request, pieces):
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for piece in pieces:
            request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            request.wfile.flush()
        request.wfile.write(b"0\r\n\r\n")

    # -- routes ----------------------------------------------------------------------------------
    def handle(self, request):
        body = self.body_of(request)
        parts = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        with self.lock:
            self.calls.append((request.command, request.path, body))
        if request.headers.get("Authorization") != "Bearer sk_test":
            return self.refuse(request, 401, "unauthenticated", "no key counts")
        if self.refusal and request.command == "POST" and parts.path == "/v1/sandboxes":
            return self.refuse(request, *self.refusal)
        if parts.path == "/v1/sandboxes":
            return self.collection(request, body, query)
        if match := re.fullmatch(r"/v1/sandboxes/([^/]+)(/.*)?", parts.path):
            return self.sandbox(request, match[1], match[2] or "", body, query)
        if parts.path == "/v1/workers":
            return self.answer(request, 200, {"workers": [
                {"id": "w-1", "name": "one", "workspace": "", "state": "ready", "connected": True,
                 "engine": "docker 20.10.24", "arch": "amd64", "cpu_cores": 4, "memory_mb": 8192,
                 "sandboxes": 1, "max_sandboxes": 100, "used_cpu_cores": 1, "used_memory_mb": 512,
                 "capabilities": ["egress"], "last_heartbeat_at": None}]})
        if parts.path == "/v1/join-tokens" and request.command == "POST":
            return self.answer(request, 201, {"id": "abc", "token": "jn_secret", **json.loads(body)})
        if parts.path == "/v1/keys" and request.command == "POST":
            return self.answer(request, 201, {"id": "abc", "key": "sk_secret", **json.loads(body)})
        return self.refuse(request, 404, "route_not_found", "no such route")

    def collection(self, request, body, query):
        if request.command == "GET":
            rows = sorted(self.sandboxes)
            if "after" in query:
                rows = [row for row in rows if row > query["after"]]
            page, rest = rows[:2], rows[2:]
            return self.answer(request, 200, {"sandboxes": [self.sandboxes[row] for row in page],
                                              "next": page[-1] if rest else None})
        self.create_started.set()
        key = request.headers.get("Idempotency-Key")
        with self.lock:
            name = self.by_request_key.setdefault(key, f"i{len(self.by_request_key):020d}")
            spec = json.loads(body)
            self.sandboxes.setdefault(name, {"id": name, "state": "running", "reason": "", **spec})
        if self.hold_create and query.get("wait") != "false":
            self.released.wait(30)
            return None
        return self.answer(request, 201, self.sandboxes[name])

    def sandbox(self, request, name, rest, body, query):
        row = self.sandboxes.get(name) or next(
            (s for s in self.sandboxes.values() if s.get("name") == name), None)
        if row is None:
            return self.refuse(request, 404, "sandbox_not_found", f"there is no sandbox `{name}`")
        if rest == "" and request.command == "DELETE":
            with self.lock:
                del self.sandboxes[row["id"]]
            self.released.set()
            return self.answer(request, 204)
        if rest == "":
            return self.answer(request, 200, row)
        if rest == "/exec":
            return self.exec(request, json.loads(body))
        if rest == "/files":
            return self.file(request, query["path"], body)
        if rest == "/rpc/filesystem.Filesystem/Stat":
            return self.stat(request, json.loads(body)["path"])
        if rest.startswith("/rpc/process.Process/"):
            return self.process(request, rest.rsplit("/", 1)[1], body)
        if rest == "/isolation":
            return self.answer(request, 200, {
                "sandbox": row["id"], "state": "running", "generation": 1, "worker": "w-1",
                "composed_at": "2020-01-01T00:00:00.000Z", "lines": [
                    {"topic": "root", "statement": "Not root.", "known": "declared", "details": {}},
                    {"topic": "wall", "statement": "It stands\x1b[2J.", "known": "structural",
                     "at": "2020-01-01T00:00:00.000Z", "details": {}}]})
        if rest == "/egress/denied":
            return self.answer(request, 200, {"denied": [
                {"host": "evil\x1b[2J.test", "port": 443, "reason": "not_in_allow_list", "count": 3,
                 "first": "2020-01-01T00:00:00.000Z", "last": "2020-01-01T00:00:00.000Z"}]})
        return self.refuse(request, 404, "route_not_found", "no such route")

    def exec(self, request, body):
        command = body["command"]
        if command[0] == "no-such-command":
            return self.refuse(request, 400, "command_not_found",
                               "command not found: `no-such-command`", field="command")
        line = lambda **event: json.dumps(event).encode() + b"\n"
        data = lambda text: base64.b64encode(text).decode()

        def pieces():
            yield line(type="start", pid=7)
            if command[0] == "hang":
                yield line(type="stdout", data=data(b"started\n"))
                self.exec_started.set()
                self.released.wait(30)
                return
            if command[0] == "flood":
                for _ in range(100_000):
                    yield line(type="stdout", data=data(b"x" * 1000))
                return
            if command[0] == "break":
                return
            yield line(type="stdout", data=data(b"out\n"))
            yield line(type="stderr", data=data(b"err\n"))
            yield line(type="exit", exit_code=int(command[1]) if len(command) > 1 and
                       command[0] == "exit" else 0, signal=None, timed_out=command[0] == "late")
        try:
            self.stream(request, pieces())
        except OSError:
            pass

    def file(self, request, path, body):
        if request.command == "PUT":
            self.files[path] = body
            return self.answer(request, 200, {})
        if path not in self.files:
            return self.refuse(request, 404, "file_not_found", f"there is no `{path}`")
        return self.answer(request, 200, raw=self.files[path])

    def stat(self, request, path):
        if path in ("/tmp", "."):
            return self.answer(request, 200, {"entry": {"type": "FILE_TYPE_DIRECTORY"}})
        if path in self.files:
            return self.answer(request, 200, {"entry": {
                "type": "FILE_TYPE_FILE", "size": str(len(self.files[path])), "mode": 0o644}})
        return self.answer(request, 404, {"code": "not_found", "message": "no such file"})

    def process(self, request, method, body):
        if method == "SendInput":
            self.inputs.append(base64.b64decode(json.loads(body)["input"]["stdin"]))
            return self.answer(request, 200, {})
        if method == "CloseStdin":
            self.input_closed.set()
            return self.answer(request, 200, {})
        if method != "Start":
            return self.answer(request, 200, {})

        def envelope(value, flags=0):
            text = json.dumps(value).encode()
            return bytes([flags]) + len(text).to_bytes(4, "big") + text

        def pieces():
            yield envelope({"event": {"start": {"pid": 7}}})
            self.input_closed.wait(20)
            echo = base64.b64encode(b"".join(self.inputs)).decode()
            yield envelope({"event": {"data": {"stdout": echo}}})
            yield envelope({"event": {"end": {"exitCode": 5, "exited": True, "status": "exit status 5"}}})
            yield envelope({}, 2)
        self.stream(request, pieces())
