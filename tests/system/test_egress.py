"""A wall that is made narrower around a sandbox that runs, and what its owner sees of it."""
import json

import pytest

from house import House, wait_for

STRUCTURES = ["internal-net", "isolated-ns"]


@pytest.fixture(scope="module", params=STRUCTURES)
def house(request, upstream, tmp_path_factory):
    """One for each structure, in place of the one that the other modules share."""
    class Built(House):
        structure = request.param
    built = Built(tmp_path_factory.mktemp(request.param), upstream.address,
                  worker_options=["--reconcile-interval-ms", "2000"])
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


TUNNEL = """
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
tunnel = socket.create_connection((proxy.hostname, proxy.port), timeout=60)
tunnel.sendall(b"CONNECT packages.test:80 HTTP/1.1\\r\\nHost: packages.test:80\\r\\n\\r\\n")
print(tunnel.recv(4096).split(b"\\r\\n")[0].decode(), flush=True)
try:
    print("closed" if tunnel.recv(1) == b"" else "bytes", flush=True)
except ConnectionResetError:
    print("closed", flush=True)
"""
STATUS = "curl -s -m 10 -o /dev/null -w '%{http_code}' http://packages.test/"


@pytest.fixture
def wide(house):
    """May reach packages.test, plainly and through a tunnel."""
    status, made = house.create(egress={"allowed_domains": ["packages.test", "packages.test:80",
                                                            "other.test"]})
    assert status == 201, made
    yield made["id"]
    house.api("DELETE", f"/v1/sandboxes/{made['id']}")


def http_status(house, sandbox):
    status, done = house.exec(sandbox, ["sh", "-c", STATUS])
    assert status == 200, done
    return done["stdout"]


def narrow(house, sandbox, domains):
    return house.api("PUT", f"/v1/sandboxes/{sandbox}/egress", {"allowed_domains": domains, "apply": "now"})


def test_a_sandbox_says_how_its_wall_is_made(house, wide):
    """Its worker tells after it looked at its engine the next time."""
    wait_for(lambda: house.api("GET", f"/v1/sandboxes/{wide}")[1]["egress_structure"] == house.structure, 30, "the structure")


def test_a_narrowing_takes_effect_on_a_sandbox_that_runs(house, wide, nothing_left):
    assert http_status(house, wide) == "200"
    tunnel = house.cli_process("exec", wide, "--", "python3", "-c", TUNNEL)
    try:
        assert b" 200 " in tunnel.stdout.readline()
        status, answer = narrow(house, wide, ["other.test"])
        assert (status, answer["applied"]) == (200, True), answer
        assert tunnel.stdout.readline() == b"closed\n"
        assert tunnel.wait(20) == 0
    finally:
        tunnel.kill()
    assert http_status(house, wide) == "403"
    _, seen = house.api("GET", f"/v1/sandboxes/{wide}")
    assert seen["egress"]["allowed_domains"] == ["other.test"]
    assert seen["egress_narrowing"]["applied"] is True


def test_what_was_narrowed_stays_so_after_the_worker_and_its_proxies_started_again(house, wide):
    status, answer = narrow(house, wide, ["other.test"])
    assert status == 200, answer
    house.kill("worker")
    house.start_worker()
    assert http_status(house, wide) == "403"
    status, answer = narrow(house, wide, ["packages.test"])
    assert (status, answer["error"]) == (409, "policy_widens")
    assert answer["entries"] == ["packages.test"]
    assert http_status(house, wide) == "403"


def test_a_narrowing_waits_for_a_worker_that_is_away(house, wide):
    house.kill("worker")
    status, answer = narrow(house, wide, [])
    assert (status, answer["applied"]) == (202, False), answer
    house.start_worker()

    def in_force():
        return house.api("GET", f"/v1/sandboxes/{wide}")[1]["egress_narrowing"]["applied"]
    wait_for(in_force, 30, "the narrowing")
    assert http_status(house, wide) == "403"


def test_a_recorded_policy_is_for_the_next_creation(house, wide):
    status, answer = house.api("PUT", f"/v1/sandboxes/{wide}/egress", {"allowed_domains": ["new.test"]})
    assert (status, answer["applies"]) == (202, "next_creation")
    assert http_status(house, wide) == "200"
    status, made = house.create(egress={"recorded_of": wide})
    assert status == 201, made
    try:
        assert made["egress"]["allowed_domains"] == ["new.test"]
        assert http_status(house, made["id"]) == "403"
    finally:
        house.api("DELETE", f"/v1/sandboxes/{made['id']}")


def test_an_unwalled_sandbox_cannot_be_walled_while_it_runs(house):
    status, made = house.create(egress=None)
    assert status == 201, made
    try:
        status, answer = narrow(house, made["id"], [])
        assert (status, answer["error"]) == (409, "cannot_retrofit")
    finally:
        house.api("DELETE", f"/v1/sandboxes/{made['id']}")


def test_an_owner_follows_what_is_refused_and_gets_a_policy_for_it(house, wide):
    follower = house.cli_process("egress", "denied", wide, "--follow", "--json")
    try:
        house.exec(wide, ["sh", "-c", "curl -s -m 10 http://evil.test:8080/; curl -s -m 10 http://more.test/"])
        seen = {}
        while len(seen) < 2:
            line = json.loads(follower.stdout.readline())
            seen[line["host"]] = line["port"]
        assert seen == {"evil.test": 8080, "more.test": 80}
    finally:
        follower.kill()
        follower.wait(10)
    done = house.cli("egress", "denied", wide, "--suggest")
    assert json.loads(done.stdout) == {"allowed_domains": ["evil.test:8080", "more.test"]}
