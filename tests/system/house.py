"""A whole deployment for the tests: controller, worker and command on a real Docker Engine.

Everything that it makes carries the controller's own id, so `leftovers` can tell to the last
container, network, volume and file whether something was left behind.
"""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

BUILD = pathlib.Path(os.environ.get("SANDBOXKIT_BUILD", "build")).resolve()
ENGINE = os.environ.get("SANDBOXKIT_ENGINE_SOCKET", "/var/run/docker.sock")
IMAGE = os.environ.get("SANDBOXKIT_TEST_IMAGE", "sandboxkit/base")
OWNER = "acme"


def binary(name):
    folder = {"sandboxkit": "cli"}.get(name, name.removeprefix("sandboxkit-"))
    return str(BUILD / "daemons" / folder / name)


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("engine", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def engine(method, path, body=None, sock=None):
    """One call of the Engine API; returns status and parsed answer."""
    connection = UnixHttp(sock or ENGINE)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, "/v1.41" + path, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    with contextlib.suppress(ValueError):
        return answer.status, json.loads(data)
    return answer.status, data.decode(errors="replace")


def wait_for(condition, seconds=30, what="condition"):
    """Waits for a fact, never for a time: polls until it holds or the deadline is past."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(0.05)


class Daemon:
    """A daemon of ours as a process, with its log in a file."""

    def __init__(self, argv, log, env=None, preexec=None):
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **(env or {})}, preexec_fn=preexec)

    @property
    def pid(self):
        return self.process.pid

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def peak_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

    def stop(self, sig=signal.SIGTERM, seconds=20):
        if self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise
        return self.process.returncode


class Upstream:
    """A host that the tests serve themselves, on the gateway of a network of its own."""

    def __init__(self, name):
        status, made = engine("POST", "/networks/create", {
            "Name": name, "CheckDuplicate": True,
            "IPAM": {"Config": [{"Subnet": "10.230.255.0/24", "Gateway": "10.230.255.1"}]}})
        assert status == 201, made
        self.network = made["Id"]
        self.address = "10.230.255.1"
        self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(inner):
                self.seen.append((inner.headers.get("Host"), inner.path))
                body = b"hello from upstream\n"
                inner.send_response(200)
                inner.send_header("Content-Length", str(len(body)))
                inner.end_headers()
                inner.wfile.write(body)

            def log_message(inner, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((self.address, 80), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        engine("DELETE", f"/networks/{self.network}")


class House:
    structure = "internal-net"
    worker_folder = None  # In `folder`, unless a class puts it somewhere else.
    wall_pool = None  # 0 on networks: what waits for a sandbox is no sandbox's, and most tests count those.

    def __init__(self, folder, upstream_address, worker_options=(), controller_options=(),
                 engine_socket=ENGINE):
        self.engine_socket = engine_socket
        self.folder = pathlib.Path(folder)
        self.worker_folder = self.worker_folder or self.folder / "worker"
        self.upstream_address = upstream_address
        self.worker_options = list(worker_options)
        self.controller_options = list(controller_options)
        self.controller = self.worker = None
        self.port = 0
        try:
            self.start_controller()
            self.operator_key = (self.folder / "controller" / "operator.key").read_text().strip()
            self.owner_key = self.make_workspace(OWNER)
            self.start_worker(join=True)
        except BaseException:
            self.stop_daemons()
            raise

    # -- daemons -----------------------------------------------------------------------------
    def start_controller(self, env=None):
        ports = self.spawn_controller(env)
        wait_for(lambda: self.controller.process.poll() is not None or
                 (ports.exists() and ports.read_text().strip()), 20, "the controller's port")
        assert self.controller.process.poll() is None, (self.folder / "controller.log").read_text()
        self.port = int(ports.read_text())

    def spawn_controller(self, env=None):
        """Does not wait for it: it may be told to die at once."""
        ports = self.folder / "port"
        ports.unlink(missing_ok=True)
        self.controller = Daemon(
            [binary("sandboxkit-controller"), "--state-dir", str(self.folder / "controller"),
             "--listen", f"127.0.0.1:{self.port}", "--port-file", str(ports),
             "--shutdown-grace-ms", "1000", "--rate-limit-per-key", "0", "--failed-auth-per-minute", "0",
             *self.controller_options], self.folder / "controller.log", env)
        return ports

    def start_worker(self, join=False):
        token = []
        if join:
            status, made = self.api("POST", "/v1/join-tokens", {"name": "w1"})
            assert status == 201, made
            token = ["--join-token", made["token"]]
        self.spawn_worker(*token)
        self.wait_ready()

    def spawn_worker(self, *token, env=None):
        """Does not wait for it: it may be told to die at once."""
        self.worker = Daemon(
            [binary("sandboxkit-worker"), "--controller", self.url, "--state-dir",
             str(self.worker_folder), *token, "--name", "w1", "--engine-socket", self.engine_socket,
             "--guest-binary", binary("sandboxkit-guest"), "--egress-binary", binary("sandboxkit-egress"),
             "--egress-host", f"packages.test={self.upstream_address}",
             "--egress-structure", self.structure, "--wall-pool", str(self.waiting()),
             "--heartbeat-interval-ms", "1000", *self.worker_options], self.folder / "worker.log", env)

    def waiting(self):
        return self.wall_pool if self.wall_pool is not None else 0 if self.structure == "internal-net" else 2

    def wait_ready(self):
        def ready():
            assert self.worker.process.poll() is None, (self.folder / "worker.log").read_text()
            status, answer = self.api("GET", "/v1/workers")
            return status == 200 and any(w["state"] == "ready" and w.get("connected")
                                         for w in answer["workers"])
        wait_for(ready, 60, "a ready worker")

    def kill(self, which):
        daemon = getattr(self, which)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait(10)

    def close(self):
        for sandbox in self.sandboxes():
            self.api("DELETE", f"/v1/sandboxes/{sandbox['id']}")
        left = self.leftovers()
        self.stop_daemons()
        self.sweep()
        return left

    def stop_daemons(self):
        for daemon in (self.worker, self.controller):
            if daemon:
                daemon.stop()

    # -- API and command -----------------------------------------------------------------------
    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, key=None, headers=None, timeout=120):
        """Returns status, headers and raw body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = dict(headers or {})
        if key is None:
            key = self.owner_key
        if key:
            sent.setdefault("Authorization", f"Bearer {key}")
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.headers, data

    def api(self, method, path, body=None, key=None, headers=None):
        sent = {"Content-Type": "application/json", **(headers or {})}
        text = json.dumps(body) if body is not None and not isinstance(body, (str, bytes)) else body
        status, _, data = self.request(method, path, text, key, sent)
        return status, json.loads(data) if data else None

    def make_workspace(self, name, **more):
        status, made = self.api("POST", "/v1/workspaces", {"id": name, **more}, key=self.operator_key)
        assert status == 201, made
        return made["key"]

    def create(self, key=None, **body):
        body.setdefault("image", IMAGE)
        body.setdefault("egress", {"allowed_domains": []})
        return self.api("POST", "/v1/sandboxes", body, key=key)

    def exec(self, sandbox, command, key=None, **body):
        return self.api("POST", f"/v1/sandboxes/{sandbox}/exec", {"command": command, **body}, key=key)

    def sandboxes(self, key=None):
        status, answer = self.api("GET", "/v1/sandboxes?state=pending,starting,running,stopping", key=key)
        assert status == 200, answer
        return answer["sandboxes"]

    def cli(self, *args, key=None, timeout=120, input=None):
        env = {**os.environ, "SANDBOXKIT_URL": self.url, "SANDBOXKIT_KEY": key or self.owner_key,
               "HOME": str(self.folder)}
        return subprocess.run([binary("sandboxkit"), *args], env=env, capture_output=True,
                              timeout=timeout, input=input)

    def cli_process(self, *args):
        env = {**os.environ, "SANDBOXKIT_URL": self.url, "SANDBOXKIT_KEY": self.owner_key,
               "HOME": str(self.folder)}
        return subprocess.Popen([binary("sandboxkit"), *args], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.PIPE)

    # -- what is left ---------------------------------------------------------------------------
    def controller_id(self):
        return json.loads((self.worker_folder / "worker.json").read_text())["controller"]

    def objects(self, what):
        label = json.dumps({"label": [f"dev.sandboxkit.controller={self.controller_id()}"]})
        path = {"containers": "/containers/json?all=1&", "networks": "/networks?",
                "volumes": "/volumes?"}[what]
        status, answer = engine("GET", path + "filters=" + urllib.parse.quote(label),
                                sock=self.engine_socket)
        assert status == 200, answer
        return (answer.get("Volumes") or []) if what == "volumes" else answer

    def leftovers(self):
        """Names of engine objects and files that belong to single sandboxes."""
        # Not the namespaces that wait for a sandbox.
        found = [c["Names"][0] for c in self.objects("containers")
                 if c["Labels"].get("dev.sandboxkit.sandbox")]
        found += [n["Name"] for n in self.objects("networks")
                  if n["Labels"].get("dev.sandboxkit.sandbox")]
        found += [v["Name"] for v in self.objects("volumes")]
        folder = self.worker_folder / "sandboxes"
        if folder.exists():
            found += [str(path) for path in folder.iterdir()]
        return found

    def sweep(self):
        for container in self.objects("containers"):
            engine("DELETE", f"/containers/{container['Id']}?force=1&v=1", sock=self.engine_socket)
        for network in self.objects("networks"):
            engine("DELETE", f"/networks/{network['Id']}", sock=self.engine_socket)
