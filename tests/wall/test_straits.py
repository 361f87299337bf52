"""Attack 74 of the list: a proxy without memory, without a network, without a disk, and without a reader of its log."""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from house import wait_for
from internet import ALLOWED
from trying import held, passes, proxy_pid, trying
from wall_house import WallHouse, ask_proxy, get, status_and_reason

CGROUPS = pathlib.Path("/sys/fs/cgroup")
# As many connections as a proxy accepts, each with half a head, so that all of it is kept.
CROWD = """
import json, os, socket
host, port = os.environ["HTTP_PROXY"].removeprefix("http://").rstrip("/").rsplit(":", 1)
held = []
for _ in range(500):
    try:
        s = socket.create_connection((host, int(port)), 2)
        s.sendall(b"GET http://ok.test/ HTTP/1.1\\r\\nHost: ok.test\\r\\nX: " + b"x" * 12000)
        held.append(s)
    except OSError:
        break
print(json.dumps(len(held)))
"""


@pytest.fixture(scope="module")
def tried(house):
    made = trying(house)
    yield made
    made.delete()


def denies(sandbox):
    return status_and_reason(ask_proxy(sandbox, [get("http://evil.test/")])[0]) == "403 not_in_allow_list"


def wait_for_another(sandbox, before):
    wait_for(lambda: proxy_pid(sandbox) not in (0, before), 60, "another proxy")
    wait_for(lambda: passes(sandbox), 60, "the way through the new proxy")
    assert denies(sandbox)


class Squeeze:
    """A memory cgroup without room, and how often the kernel killed in it."""

    def __init__(self, kib):
        self._unified = (CGROUPS / "cgroup.controllers").exists()
        self._folder = (CGROUPS if self._unified else CGROUPS / "memory") / f"sandboxkit-test-{os.getpid()}"
        self._folder.mkdir()
        limit = "memory.max" if self._unified else "memory.limit_in_bytes"
        (self._folder / limit).write_text(str(kib << 10))

    def take(self, pid):
        (self._folder / "cgroup.procs").write_text(str(pid))

    def kills(self):
        told = (self._folder / ("memory.events" if self._unified else "memory.oom_control")).read_text()
        return int(dict(line.split() for line in told.splitlines())["oom_kill"])

    def close(self):
        wait_for(lambda: not (self._folder / "cgroup.procs").read_text(), 30, "the end of what was in it")
        self._folder.rmdir()


def test_74_a_proxy_that_the_kernel_kills_for_its_memory_opens_nothing_and_comes_back(internet, tried):
    squeeze = Squeeze(256)
    try:
        with held(internet, tried):
            before = proxy_pid(tried)
            squeeze.take(before)
            tried.python(CROWD, timeout=120)
            wait_for(lambda: proxy_pid(tried) != before, 60, "the end of the proxy")
            assert squeeze.kills() >= 1
            wait_for_another(tried, before)
        assert tried.state()["state"] == "running"
    finally:
        squeeze.close()


@pytest.mark.parametrize("which", ["wall", "shared"])
def test_74_a_proxy_cut_off_from_one_of_its_networks_opens_nothing_and_its_sandbox_is_ended(internet, own, house, which):
    if house.structure != "internal-net":
        pytest.skip("this structure's proxy is on no network of its own")
    sandbox = trying(house)
    sidecar = sandbox.container("egress")
    own_network = next(n["Id"] for n in house.objects("networks") if n["Labels"].get("dev.sandboxkit.sandbox") == sandbox.id)
    networks = {end["NetworkID"] for end in sidecar["NetworkSettings"]["Networks"].values()}
    cut = own_network if which == "wall" else (networks - {own_network}).pop()
    with internet.only((ALLOWED, 80), names=["ok.test"]):
        own.call("POST", f"/networks/{cut}/disconnect", {"Container": sidecar["Id"], "Force": True})
        row = wait_for(lambda: (r := sandbox.state())["state"] not in ("running", "stopping") and r, 60, "the end")
        assert row["reason"].startswith("no wall: its egress proxy is on other networks"), row
    wait_for(lambda: not [left for left in house.leftovers() if sandbox.id in left], 60, "nothing left")


def fill(path):
    """Until there is no room for one more byte."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x"):
            pass


@pytest.fixture
def small_house(internet, own, house, tmp_path):
    """A worker whose state folder is on a disk of 16 MiB."""
    built = WallHouse(tmp_path, own, house.structure, worker_folder=own.small / house.structure,
                      controller_options=["--create-wait-ms", "15000"])
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


def much_to_log(sandbox):
    """More than a log's buffers hold, all of it refused."""
    long = "x" * 60
    rows = [get(f"http://{long}.{long}.{long}.n{i}.evil.test/") for i in range(400)]
    told = {status_and_reason(answer) for answer in ask_proxy(sandbox, rows)}
    assert told == {"403 not_in_allow_list"}, told


def test_74_a_full_disk_under_the_workers_folder_opens_nothing(internet, own, small_house):
    sandbox = trying(small_house)
    filler = own.small / "filler"
    try:
        with held(internet, sandbox):
            fill(filler)
            assert os.statvfs(own.small).f_bavail == 0
            much_to_log(sandbox)
            assert passes(sandbox)
            before = proxy_pid(sandbox)
            os.kill(before, signal.SIGKILL)
            wait_for_another(sandbox, before)
            status, refused = small_house.create(egress={"allowed_domains": ["ok.test"]})
            assert (status, refused["error"]) == (504, "create_timeout"), (status, refused)
    finally:
        filler.unlink()
    assert sandbox.state()["state"] == "running" and passes(sandbox)
    after = small_house.sandbox(["ok.test"])
    assert passes(after) and denies(after)
    after.delete()
    sandbox.delete()


@contextlib.contextmanager
def full_engine(own):
    """The disk that the engine keeps containers and their logs on has no room."""
    data = str(own.folder / "data")

    def inside(*argv):
        return subprocess.run(own.inside(*argv), check=True, capture_output=True, text=True).stdout
    in_use = int(inside("df", "--output=used", "-B1", data).split()[1])
    inside("mount", "-o", f"remount,size={in_use + (1 << 20)}", data)
    try:
        # The engine removes files of its own meanwhile: what it gave back is filled as well.
        for _ in range(20):
            subprocess.run(own.inside("dd", "if=/dev/zero", f"of={data}/filler", "bs=4k", "oflag=append", "conv=notrunc"),
                           check=False, capture_output=True)
            if int(inside("df", "--output=avail", "-B1", data).split()[1]) == 0:
                break
        else:
            pytest.fail("the engine's disk does not get full")
        yield
    finally:
        inside("rm", "-f", f"{data}/filler")
        inside("mount", "-o", "remount,size=6g", data)


def test_74_a_full_disk_under_the_engine_opens_nothing(internet, own, house):
    sandbox = trying(house)
    try:
        with internet.only((ALLOWED, 80), names=["ok.test"]):
            with full_engine(own):
                much_to_log(sandbox)
                assert passes(sandbox) and denies(sandbox)
            assert passes(sandbox) and denies(sandbox)
        assert sandbox.state()["state"] == "running"
    finally:
        sandbox.delete()


def test_74_a_proxy_that_ends_on_a_full_disk_of_the_engine_takes_its_sandbox_with_it(internet, own, house):
    """Such an engine starts it no more, and goes on to list it as running."""
    if house.structure != "internal-net":
        pytest.skip("this structure's proxy is not the engine's")
    sandbox = trying(house)
    with internet.only((ALLOWED, 80), names=["ok.test"]):
        with full_engine(own):
            sidecar = sandbox.container("egress")
            os.kill(sidecar["State"]["Pid"], signal.SIGKILL)
            wait_for(lambda: not own.call("GET", f"/containers/{sidecar['Id']}/json")["State"]["Running"], 30, "its end")
            assert not passes(sandbox)
        row = wait_for(lambda: (r := sandbox.state())["state"] not in ("running", "stopping") and r, 90, "the end")
        assert row["reason"].startswith("no wall: its egress proxy has ended"), row
    wait_for(lambda: not [left for left in house.leftovers() if sandbox.id in left], 60, "nothing left")


def test_74_a_proxy_whose_log_nobody_reads_goes_on(internet, own, tried):
    """The engine's shim passes a container's output on: while it sleeps the pipe fills up."""
    sidecar = tried.container("egress")
    if sidecar is None:
        pytest.skip("this structure's log is a file")
    with open(f"/proc/{proxy_pid(tried)}/status", encoding="ascii") as status:
        shim = next(int(line.split()[1]) for line in status if line.startswith("PPid:"))
    with held(internet, tried):
        # The daemon is asked for nothing in between, which is as asleep then.
        own.process.send_signal(signal.SIGSTOP)
        os.kill(shim, signal.SIGSTOP)
        try:
            much_to_log(tried)
            assert passes(tried) and denies(tried)
        finally:
            os.kill(shim, signal.SIGCONT)
            own.process.send_signal(signal.SIGCONT)
    assert passes(tried)
