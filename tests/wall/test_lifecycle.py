"""Attacks 64, 70, 71, 74 and 79 of the list: what befalls a wall while its sandbox lives.

While each of it happens a process in the sandbox tries every way out, again and again. What is asked is the wire.
"""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from house import wait_for
from internet import ALLOWED, EVIL, is_end_of_kept
from packets import outside_of
from spaces import run, sysctl
from trying import held, passes, proxy_pid, trying
from wall_engine import Plain
from wall_house import ask_proxy, get, status_and_reason


@pytest.fixture(scope="module")
def tried(house):
    made = trying(house)
    yield made
    made.delete()


def test_74_a_proxy_that_is_killed_opens_nothing_and_comes_back_with_its_policy(internet, tried):
    with held(internet, tried):
        before = proxy_pid(tried)
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: proxy_pid(tried) not in (0, before), 60, "another proxy")
        wait_for(lambda: passes(tried), 60, "the way through the new proxy")
        assert status_and_reason(ask_proxy(tried, [get("http://evil.test/")])[0]) == "403 not_in_allow_list"


def test_74_a_proxy_that_hangs_opens_nothing(internet, tried):
    pid = proxy_pid(tried)
    os.kill(pid, signal.SIGSTOP)
    try:
        with held(internet, tried) as seen:
            assert tried.shell("curl -sS -m 2 http://ok.test/")["exit_code"] != 0
        assert [packet for packet in outside_of(seen) if not is_end_of_kept(packet)] == []
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: passes(tried), 30, "the way through the proxy that goes on")


@contextlib.contextmanager
def flushed():
    """The machine's filter rules are gone, and it forwards whatever comes."""
    saved = run("iptables-save")
    run("iptables", "-P", "FORWARD", "ACCEPT")
    run("iptables", "-F")
    try:
        yield
    finally:
        subprocess.run(["iptables-restore"], input=saved, text=True, check=True)


def test_70_a_flush_of_the_machines_firewall_opens_nothing(internet, own, tried):
    network = own.call("POST", "/networks/create", {"Name": "wall-control", "Internal": True})["Id"]
    control = Plain(own, network)
    try:
        with flushed():
            with held(internet, tried, 3):
                assert passes(tried)
            with internet.watch() as seen:
                control.run(["bash", "-c", f"echo x > /dev/udp/{EVIL}/53"])
            default_route = "00000000" in control.run(["cut", "-f", "2", "/proc/net/route"]).stdout
            # Where an internal network has a default route, a flush alone opens it.
            assert default_route == bool([p for p in seen if p.to == EVIL])
    finally:
        control.close()
        own.call("DELETE", f"/networks/{network}")


def test_64_without_the_bridges_filter_the_proxy_still_routes_nothing(internet, tried, plain):
    attacker = pathlib.Path(__file__).with_name("attacker.py").read_text()
    sysctl("net/bridge/bridge-nf-call-iptables", 0)
    try:
        with held(internet, tried):
            sidecar = tried.container("egress")
            if sidecar:
                pid = str(sidecar["State"]["Pid"])
                assert run("nsenter", "-t", pid, "-n", "cat", "/proc/sys/net/ipv4/ip_forward") == "0\n"
                to = "93.200.9.9"
                ends = [end["MacAddress"].replace(":", "") for end in sidecar["NetworkSettings"]["Networks"].values()]
                # Even with every capability, as a sandbox never has: the proxy's own end takes no frame further.
                box = str(tried.pid)
                for hardware in ends:
                    subprocess.run(["nsenter", "-t", box, "-m", "-n", "python3", "-", f'{{"frame": {{"to": "{to}", '
                                    f'"hardware": "{hardware}"}}}}'], input=attacker, text=True, check=True,
                                   capture_output=True)
    finally:
        sysctl("net/bridge/bridge-nf-call-iptables", 1)


def test_79_a_name_that_is_used_again_brings_nothing_of_its_former_bearer(internet, house):
    first = house.sandbox(["ok.test"], name="again")
    assert passes(first)
    status_and_reason(ask_proxy(first, [get("http://evil.test/")])[0])
    assert first.denied()
    first.delete()
    wait_for(lambda: first.state().get("state") not in ("running", "stopping"), 60, "the end of the first")
    second = house.sandbox(["*.w.test"], name="again")
    try:
        assert second.id != first.id and second.denied() == []
        with internet.only():
            assert status_and_reason(ask_proxy(second, [get("http://ok.test/")])[0]) == "403 not_in_allow_list"
    finally:
        second.delete()


def test_36_one_sandbox_that_takes_every_connection_leaves_another_ones_alone(internet, walled, tried):
    taken = walled.python("""
import json, os, socket
host, port = os.environ["HTTP_PROXY"].removeprefix("http://").rstrip("/").rsplit(":", 1)
held, refused = [], 0
for _ in range(300):
    s = socket.create_connection((host, int(port)), 10)
    s.settimeout(20)
    s.sendall(b"CONNECT ok.test:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    answer = s.recv(1000)
    refused += b" 429 " in answer
    held.append(s)
print(json.dumps(refused))
""", timeout=120)
    assert taken >= 300 - 256
    assert passes(tried)
