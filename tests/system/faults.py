"""Deaths at named places: a house whose daemons are told where to die, and what must hold after it."""
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import pathlib
import re
import signal
import sqlite3
import threading
import time
import uuid

from house import IMAGE, House, UnixHttp, wait_for

HEADER = pathlib.Path(__file__).resolve().parents[2] / "lib" / "base" / "fault_point.h"
ALLOWED = {"allowed_domains": ["packages.test"]}


def fault_points():
    """The names of lib/base/fault_point.h, the one list."""
    text = HEADER.read_text()
    listed = text[text.index("kFaultPoints"):text.index("});")]
    return re.findall(r'^\s*"([a-z_.]+)",', listed, re.M)


class Events:
    """What an engine tells of containers and networks, from before a death to its end."""

    def __init__(self, sock, on_event=lambda event: None):
        self._on_event = on_event
        self._connection = UnixHttp(sock, timeout=None)
        self._connection.request("GET", "/v1.41/events")
        self._answer = self._connection.getresponse()
        self._lock = threading.Lock()
        self._seen = []
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        # The stream ends with the engine, or when it is closed.
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for line in self._answer:
                event = json.loads(line)
                if event.get("Type") in ("container", "network"):
                    with self._lock:
                        self._seen.append(event)
                    self._on_event(event)

    def close(self):
        with contextlib.suppress(OSError, AttributeError):
            self._connection.sock.shutdown(2)

    def all(self):
        with self._lock:
            return list(self._seen)

    def of(self, sandbox):
        """The events of one sandbox's containers and of its wall, oldest first."""
        containers = {e["Actor"]["ID"] for e in self.all()
                      if e["Actor"]["Attributes"].get("dev.sandboxkit.sandbox") == sandbox}
        return [e for e in self.all()
                if e["Actor"]["ID"] in containers or
                e["Actor"]["Attributes"].get("container") in containers or
                e["Actor"]["Attributes"].get("name") == f"sbx-{sandbox}"]


def check_history(events, sandbox, structure="internal-net"):
    """At most one at any moment, and none that started before its wall stood or on another network."""
    return check_isolated(events, sandbox) if structure == "isolated-ns" else check_walled(events, sandbox)


def check_isolated(events, sandbox):
    """No network, at no moment; its proxy is no container."""
    running, started = set(), 0
    for event in events.of(sandbox):
        actor, attributes = event["Actor"]["ID"], event["Actor"]["Attributes"]
        step = (event["Type"], event["Action"])
        assert attributes.get("dev.sandboxkit.role", "sandbox") == "sandbox", event
        assert event["Type"] != "network" or attributes["name"] == "none", f"{sandbox} has a network: {event}"
        if step == ("container", "start"):
            started += 1
            assert not running, f"a second container of {sandbox} started while one ran"
            running.add(actor)
        elif step == ("container", "die"):
            running.discard(actor)
    return started


def check_walled(events, sandbox):
    running, proxies, anchors, walls, started = set(), set(), set(), set(), 0
    joined = {}
    for event in events.of(sandbox):
        actor, attributes = event["Actor"]["ID"], event["Actor"]["Attributes"]
        step = (event["Type"], event["Action"])
        role = attributes.get("dev.sandboxkit.role")
        if step == ("network", "create"):
            walls.add(actor)
        elif step == ("network", "destroy"):
            walls.discard(actor)
        elif step == ("network", "connect"):
            joined.setdefault(attributes["container"], set()).add(actor)
        elif step == ("network", "disconnect"):
            joined.get(attributes["container"], set()).discard(actor)
        elif step == ("container", "start") and role == "egress":
            proxies.add(actor)
        elif step == ("container", "start") and role == "anchor":
            assert joined.get(actor) == walls, f"{sandbox} was to be on {joined.get(actor)}"
            anchors.add(actor)
        elif step == ("container", "start") and role == "sandbox":
            started += 1
            assert not running, f"a second container of {sandbox} started while one ran"
            assert len(walls) == 1, f"{sandbox} started without a wall"
            assert not joined.get(actor), f"{sandbox} started on {joined.get(actor)} besides its anchor's network"
            assert len(anchors) == 1, f"{sandbox} started without its network"
            assert len(proxies) == 1, f"{sandbox} started before its proxy ran"
            assert len(joined[next(iter(proxies))] & walls) == 1, "its proxy was outside of the wall"
            running.add(actor)
        elif step == ("container", "die"):
            running.discard(actor)
            proxies.discard(actor)
            anchors.discard(actor)
        if step == ("network", "connect") and running and attributes["container"] in running | anchors:
            raise AssertionError(f"{sandbox} joined another network while it ran")
    return started


class FaultHouse(House):
    """Its daemons can be told to die at a fault point; clients of it go on as if nothing were."""

    def __init__(self, folder, upstream_address, structure="internal-net", **options):
        self.structure = structure
        super().__init__(folder, upstream_address, **options)
        try:
            self.events = Events(self.engine_socket)
            self.pool = concurrent.futures.ThreadPoolExecutor(4)
            self.policy_hash = self.create_whole()["policy_hash"]
            assert re.fullmatch("[0-9a-f]{64}", self.policy_hash)
        except BaseException:
            self.stop_daemons()
            raise

    def close(self):
        self.events.close()
        try:
            # A case that failed may have left a dead daemon: what it held is removed by the sweep.
            for which in ("controller", "worker"):
                if getattr(self, which).process.poll() is not None:
                    self.revive(which)
            self.wait_heard()
            return super().close()
        finally:
            self.stop_daemons()
            self.pool.shutdown(cancel_futures=True)

    # -- clients -----------------------------------------------------------------------------
    def insist(self, what, call, seconds=90):
        """A client that asks until it is answered: calls until `call` gives something true."""
        told = []

        def answered():
            try:
                return call(told)
            except (OSError, http.client.HTTPException) as error:
                told.append(repr(error))
                return None
        try:
            return wait_for(answered, seconds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {told[-3:]}") from None

    def insist_create(self, **body):
        """The same create with the same key until it is answered with a sandbox."""
        wanted = {"image": IMAGE, "egress": ALLOWED, **body}
        key = {"Idempotency-Key": uuid.uuid4().hex}

        def create(told):
            status, answer = self.api("POST", "/v1/sandboxes", wanted, headers=key)
            told.append((status, answer))
            return answer if status in (200, 201) else None
        return self.insist("an answer to the create", create)

    def insist_delete(self, sandbox):
        def delete(told):
            status, answer = self.api("DELETE", f"/v1/sandboxes/{sandbox}")
            told.append((status, answer))
            return status == 204
        return self.insist("an answer to the delete", delete)

    def insist_renew(self, sandbox, seconds):
        def renew(told):
            status, answer = self.api("POST", f"/v1/sandboxes/{sandbox}/timeout",
                                      {"timeout_seconds": seconds})
            told.append((status, answer))
            return answer if status in (200, 202) else None
        return self.insist("an answer to the renewal", renew)

    # -- death and return ----------------------------------------------------------------------
    def arm(self, which, fault, heard=True):
        """Starts a daemon anew that dies at `fault`. `heard`: the worker has probed its engine before
        we go on, and so had its predecessor, which left nothing to clear away: the next pass of a
        fault point of the driver is the client's own."""
        if heard:
            self.wait_heard()
        self.kill_if_running(which)
        self.mark = (self.folder / f"{which}.log").stat().st_size
        env = {"SANDBOXKIT_FAULT": fault}
        if which == "controller":
            return self.spawn_controller(env)
        self.spawn_worker(env=env)
        if heard:
            self.wait_heard()
        return None

    def spawn_worker(self, *token, env=None):
        self.spawned = datetime.datetime.utcnow().isoformat(timespec="milliseconds") + "Z"
        super().spawn_worker(*token, env=env)

    def wait_heard(self):
        """A worker's first heartbeat comes after its probe."""
        def heard():
            assert self.worker.process.poll() is None, (self.folder / "worker.log").read_text()[-2000:]
            view = self.api("GET", "/v1/workers")[1]["workers"][0]
            return view["last_heartbeat_at"] > self.spawned and view["connected"]
        wait_for(heard, 90, "a heartbeat of the worker")

    def kill_if_running(self, which):
        if getattr(self, which).process.poll() is None:
            self.kill(which)

    def expect_death(self, which, point, seconds=90):
        process = getattr(self, which).process
        try:
            code = process.wait(seconds)
        except Exception:
            raise AssertionError(f"the {which} never came to {point}") from None
        with open(self.folder / f"{which}.log", "rb") as log:
            log.seek(self.mark)
            told = log.read().decode(errors="replace")
        assert code == -signal.SIGKILL, f"the {which} ended with {code}: {told[-2000:]}"
        assert f"fault point {point}\n" in told, f"the {which} did not die at {point}: {told[-2000:]}"

    def revive(self, which):
        self.start_controller() if which == "controller" else self.spawn_worker()

    # -- what must hold ------------------------------------------------------------------------
    def create_whole(self):
        """A create and its delete with nothing dying in between; returns the sandbox."""
        made = self.insist_create()
        self.insist_delete(made["id"])
        return made

    def check_running(self, sandbox):
        row = self.insist("the sandbox runs", lambda _: (
            r := self.api("GET", f"/v1/sandboxes/{sandbox}")[1]).get("state") == "running" and r)
        assert row["policy_hash"] == self.policy_hash
        tried = self.insist("exec", lambda told: (a := self.exec(sandbox, ["sh", "-c",
            "curl -sS -m 10 http://packages.test/; "
            "curl -s -o /dev/null -w '%{http_code}\\n' -m 10 http://evil.test/; "
            "curl -s -o /dev/null -m 3 --noproxy '*' http://" + self.upstream_address +
            "/ && echo direct || echo walled"])) and (told.append(a) or a[0] == 200) and a[1])
        assert tried["stdout"].split("\n") == ["hello from upstream", "403", "walled", ""], tried
        mine = [c for c in self.objects("containers")
                if c["Labels"].get("dev.sandboxkit.sandbox") == sandbox]
        isolated = self.structure == "isolated-ns"
        roles = sorted(c["Labels"]["dev.sandboxkit.role"] for c in mine)
        assert roles == (["sandbox"] if isolated else ["anchor", "egress", "sandbox"])
        assert {c["Labels"]["dev.sandboxkit.policy-hash"] for c in mine} == {self.policy_hash}
        assert {c["State"] for c in mine} == {"running"}
        assert [n["Internal"] for n in self.objects("networks")
                if n["Labels"].get("dev.sandboxkit.sandbox") == sandbox] == ([] if isolated else [True])

    def check_gone(self, sandbox, state="deleted", reason=None):
        row = self.insist("the end in the store", lambda told: told.append(
            r := self.api("GET", f"/v1/sandboxes/{sandbox}")[1]) or r.get("state") == state and r)
        if reason:
            assert row["reason"] == reason
        wait_for(lambda: not self.leftovers(), 60, "nothing left")
        wait_for(lambda: self.journal_state(sandbox) in (None, "ended"), 30, "the journal's end")
        wait_for(lambda: not self.rows("controller/controller.db",
                                       "SELECT kind FROM delivery WHERE state = 'queued'"), 30,
                 "no order left")
        view = self.api("GET", "/v1/workers")[1]["workers"][0]
        assert (view["sandboxes"], view["used_cpu_cores"], view["used_memory_mb"]) == (0, 0, 0), view
        assert self.sandboxes() == []
        assert check_history(self.events, sandbox, self.structure) >= 0

    def check_audit(self, sandbox, **counts):
        for action, count in counts.items():
            found = self.rows("controller/controller.db",
                              f"SELECT count(*) FROM audit WHERE target = '{sandbox}' "
                              f"AND action = 'sandbox.{action}'")
            assert found == [(count,)], f"{action}: {found}"
        verified = self.cli("audit", "verify", "--state-dir", str(self.folder / "controller"))
        assert verified.returncode == 0, verified

    def rows(self, path, query):
        with contextlib.closing(sqlite3.connect(f"file:{self.folder / path}?mode=ro", uri=True,
                                                timeout=20)) as database:
            return database.execute(query).fetchall()

    def journal_state(self, sandbox):
        found = self.rows("worker/journal.db",
                          f"SELECT state FROM journal WHERE sandbox = '{sandbox}'")
        return found[0][0] if found else None

    def journal_expiry(self, sandbox):
        return self.rows("worker/journal.db",
                         f"SELECT expires FROM journal WHERE sandbox = '{sandbox}'")[0][0]

    def store_expiry(self, sandbox):
        return self.rows("controller/controller.db",
                         f"SELECT expires FROM sandbox WHERE id = '{sandbox}'")[0][0]
