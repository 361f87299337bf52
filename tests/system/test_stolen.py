"""Whoever has a worker's credential or a join token reaches its routes and nothing else.

A controller alone is enough: the thief speaks HTTP himself, so these tests need no engine.
"""
import http.client
import json
import re
import socket

import pytest

from house import Daemon, binary, wait_for

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
UNKNOWN = ["/", "/v1", "/v1/", "/v2/sandboxes", "/v1/nothing", "/metrics", "/debug", "/admin", "/v1/worker",
           "/v1/worker/", "/v1/worker/tunnel/", "/v1/worker/heartbeat/", "/v1/worker/heartbeat/x",
           "/v1/worker/../sandboxes", "/v1/worker/%2e%2e/sandboxes", "//v1/sandboxes", "/V1/worker/heartbeat",
           "/v1/worker%2fheartbeat", "/v1/workers/heartbeat", "/sandboxes", "/v1/sandboxes/x/init",
           "/v1/sandboxes/x/guest/health", "/v1/inventory", "/v1/deliveries"]
UNREADABLE = {path for path in UNKNOWN if ".." in path or "%2" in path or "//" in path}
JOIN = ("POST", "/v1/worker/join")
HEARTBEAT = ("POST", "/v1/worker/heartbeat")
TUNNEL = ("GET", "/v1/worker/tunnel")
OPEN = {(method, path) for method in ("GET", "HEAD") for path in ("/healthz", "/openapi.json")}


class Controller:
    def __init__(self, folder):
        ports = folder / "port"
        self.daemon = Daemon([binary("sandboxkit-controller"), "--state-dir", str(folder / "state"),
                              "--listen", "127.0.0.1:0", "--port-file", str(ports),
                              # A thief who is slowed down is no test of what he reaches.
                              "--rate-limit-per-key", "0", "--failed-auth-per-minute", "0"], folder / "log")
        wait_for(lambda: ports.exists() and ports.read_text().strip(), 20, "the controller's port")
        self.port = int(ports.read_text())
        self.operator = (folder / "state" / "operator.key").read_text().strip()
        self.owner = self.made("POST", "/v1/workspaces", {"id": "acme"}, self.operator)["key"]

    def call(self, method, path, body=None, key=None, headers=None):
        """Status, headers and body of one call; whatever the server answers is taken."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = dict(headers or {})
        if key:
            sent["Authorization"] = f"Bearer {key}"
        connection.putrequest(method, path, skip_accept_encoding=True)
        data = json.dumps(body).encode() if body is not None else b""
        sent.setdefault("Content-Length", str(len(data)))
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def patient_call(self, *args, **more):
        """A worker's credential has a fixed rate, and whoever waits gets through."""
        return wait_for(lambda: (answer := self.call(*args, **more))[0] != 429 and answer, 30, "the rate")

    def made(self, method, path, body, key):
        status, _, text = self.call(method, path, body, key)
        assert status == 201, text
        return json.loads(text)

    def join_token(self, **body):
        return self.made("POST", "/v1/join-tokens", body, self.owner)["token"]

    def join(self, token, name):
        return self.made("POST", "/v1/worker/join", {"name": name}, token)

    def routes(self):
        """Every route that the controller says it has, on ids that exist where it matters."""
        status, _, text = self.call("GET", "/openapi.json")
        assert status == 200
        for path in json.loads(text)["paths"]:
            yield re.sub(r"\{\w+\}", "acme", path)


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    running = Controller(tmp_path_factory.mktemp("stolen"))
    yield running
    assert running.daemon.stop() == 0


def attempts(controller, key, but=()):
    """Tries everything and yields what came; paths that no reader takes are refused before that."""
    tried = 0
    for path in [*controller.routes(), *UNKNOWN]:
        for method in METHODS:
            if (method, path) in but:
                continue
            status, _, text = controller.patient_call(method, path, key=key)
            tried += 1
            if status == 400 and path in UNREADABLE:
                assert error_of(method, text) in ("bad_request", None), (method, path, text)
                continue
            yield method, path, status, text
    assert tried > 300


def error_of(method, text):
    return json.loads(text)["error"] if method != "HEAD" and text else None


def test_a_stolen_worker_credential_reaches_its_two_routes_and_nothing_else(controller):
    joined = controller.join(controller.join_token(), "w1")
    bodies = set()
    for method, path, status, text in attempts(controller, joined["credential"], (HEARTBEAT, TUNNEL)):
        assert status == 403, (method, path, status, text)
        assert error_of(method, text) in ("worker_role", None), (method, path, text)
        if method != "HEAD":
            bodies.add(text)
    assert len(bodies) == 1, bodies
    assert controller.patient_call(*HEARTBEAT, {"sandboxes": []}, joined["credential"])[0] == 200
    assert controller.patient_call(*TUNNEL, key=joined["credential"])[0] == 426


def test_a_stolen_join_token_reaches_the_join_and_nothing_else(controller):
    token = controller.join_token(max_uses=2)
    for method, path, status, text in attempts(controller, token, (JOIN,)):
        assert status == 401, (method, path, status, text)
        assert error_of(method, text) in ("unauthenticated", None), (method, path, text)
    assert controller.join(token, "w2")["worker"].startswith("w-")


def test_a_used_join_token_reaches_nothing(controller):
    token = controller.join_token()
    controller.join(token, "w3")
    for method, path, status, text in attempts(controller, token):
        assert_nothing(method, path, status, text)
    status, _, text = controller.call(*JOIN, {"name": "w4"}, token)
    assert (status, json.loads(text)["error"]) == (401, "unauthenticated")


def test_a_removed_workers_credential_reaches_nothing_and_its_tunnel_is_cut(controller):
    joined = controller.join(controller.join_token(), "w5")
    other = controller.join(controller.join_token(), "w6")
    tunnel = open_tunnel(controller, joined["credential"])
    kept = open_tunnel(controller, other["credential"])
    status, _, text = controller.call("DELETE", f"/v1/workers/{joined['worker']}", key=controller.owner)
    assert status == 204, text
    assert ends(tunnel)
    for method, path, status, text in attempts(controller, joined["credential"]):
        assert_nothing(method, path, status, text)
    for route in (HEARTBEAT, TUNNEL, JOIN, ("GET", "/v1/sandboxes"), ("GET", "/v1/workers")):
        assert controller.call(*route, key=joined["credential"])[0] == 401
    # The other worker's credential and tunnel stand.
    assert controller.call(*HEARTBEAT, {"sandboxes": []}, other["credential"])[0] == 200
    assert not ends(kept, seconds=0.2)
    for connection in (tunnel, kept):
        connection.close()


def test_smuggled_and_doubled_credentials_do_not_widen_a_workers_role(controller):
    joined = controller.join(controller.join_token(), "w7")
    bad = joined["credential"]
    for headers in (
            {"Authorization": f"Bearer {bad}", "X-API-Key": controller.owner},
            {"X-API-Key": bad, "X-HTTP-Method-Override": "GET", "X-Original-URL": "/v1/worker/heartbeat"},
            {"X-API-Key": bad, "X-Forwarded-Uri": "/v1/worker/heartbeat"}):
        status, _, text = controller.call("GET", "/v1/keys", headers=headers)
        assert status in (401, 403), (headers, text)


def assert_nothing(method, path, status, text):
    """What a credential that does not count gets: like nobody, it may learn which routes there are."""
    if (method, path) in OPEN or status == 401:
        return
    assert status in (404, 405), (method, path, status, text)
    assert error_of(method, text) in ("route_not_found", "method_not_allowed", None), (method, path, text)


def open_tunnel(controller, credential):
    """The thief's own tunnel, up to the 101."""
    connection = socket.create_connection(("127.0.0.1", controller.port), 30)
    connection.sendall((f"GET /v1/worker/tunnel HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {credential}\r\n"
                        "Connection: Upgrade\r\nUpgrade: sandboxkit-tunnel/1\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return connection


def ends(connection, seconds=10):
    """Whether the other side closes within the time; what it still says is read."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False
