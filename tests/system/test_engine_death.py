"""kill -9 of dockerd, with and without live-restore: nothing lost, doubled, left over, or unwalled.

Controller and worker stand in the engine's network namespace, as on one machine: in one of the structures
the proxies do.
"""
import pytest

from faults import Events, FaultHouse, check_history
from house import wait_for
from own_engine import ADDRESS, OwnEngine
from test_crashes import pid_one_start


@pytest.fixture(scope="module", params=["internal-net", "isolated-ns"])
def structure(request):
    return request.param


@pytest.fixture(scope="module")
def own(structure):
    built = OwnEngine()
    try:
        with built.entered():
            yield built
    finally:
        built.close()


@pytest.fixture(scope="module")
def house(own, structure, tmp_path_factory):
    built = FaultHouse(tmp_path_factory.mktemp(structure), ADDRESS, structure, engine_socket=own.socket,
                       worker_options=["--reconcile-interval-ms", "1000"])
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


def is_of_a_sandbox(event):
    """Not a namespace that waits for one."""
    attributes = event["Actor"]["Attributes"]
    return attributes.get("name", "").startswith("sbx-") and attributes.get("dev.sandboxkit.role") != "holder"


def worker(house):
    return house.api("GET", "/v1/workers")[1]["workers"][0]


def wait_unhealthy(house):
    seen = wait_for(lambda: (w := worker(house))["state"] == "unhealthy" and w, 60, "unhealthy")
    assert seen["problem"], seen


def wait_ready(house):
    wait_for(lambda: (w := worker(house))["state"] == "ready" and w["problem"] is None, 60, "ready")


def try_the_wall_for_ever(house, sandbox):
    """A process that tries to pass the wall by itself until its sandbox ends."""
    status, done = house.exec(sandbox, ["sh", "-c", (
        "setsid sh -c 'while true; do echo try >> /tmp/tries; "
        f"curl -s -o /dev/null -m 1 --noproxy \"*\" http://{ADDRESS}/direct; done' >/dev/null 2>&1 & "
        "until [ -s /tmp/tries ]; do sleep 0.05; done")])
    assert status == 200 and done["exit_code"] == 0, done


def check_walled(house, sandbox):
    tried = house.insist("exec", lambda told: (a := house.exec(sandbox, ["sh", "-c",
        "curl -sS -m 10 http://packages.test/; wc -l < /tmp/tries; "
        "curl -s -o /dev/null -w '%{http_code}' -m 10 http://evil.test/"])) and
        (told.append(a) or a[0] == 200) and a[1])
    lines = tried["stdout"].split("\n")
    assert (lines[0], lines[2]) == ("hello from upstream", "403"), tried
    return int(lines[1])


def test_an_engine_that_dies_in_the_middle_of_a_create(own, house):
    """At the first thing of a sandbox that it made."""
    first = "network" if house.structure == "internal-net" else "container"

    def kill(event):
        if (event["Type"], event["Action"]) == (first, "create") and is_of_a_sandbox(event):
            own.process.kill()
    before = Events(own.socket, on_event=kill)
    answer = house.pool.submit(house.insist_create)
    own.wait_dead()
    assert not any((e["Type"], e["Action"]) == ("container", "start") and is_of_a_sandbox(e) for e in before.all())
    wait_unhealthy(house)
    own.start()
    house.events = Events(own.socket)
    made = answer.result(120)
    house.check_running(made["id"])
    wait_ready(house)
    house.insist_delete(made["id"])
    house.check_gone(made["id"])
    house.check_audit(made["id"], create=1, delete=1)


def test_sandboxes_of_an_engine_that_dies_end_with_it_and_say_so(own, house):
    made = [house.insist_create()["id"] for _ in range(2)]
    for sandbox in made:
        try_the_wall_for_ever(house, sandbox)
    own.kill()
    tries = [check_walled(house, sandbox) for sandbox in made]  # They run on without it.
    wait_unhealthy(house)
    status, refused = house.create()
    assert (status, refused["error"]) == (503, "no_capacity"), refused
    for sandbox, n in zip(made, tries):
        wait_for(lambda: check_walled(house, sandbox) > n, 30, "another try at the wall")
    own.start()
    house.events = Events(own.socket)
    ended = {}
    for sandbox in made:
        row = wait_for(lambda: (r := house.api("GET", f"/v1/sandboxes/{sandbox}")[1])["state"] !=
                       "running" and r, 60, "the noticed end")
        assert row["state"] in ("stopped", "error") and row["reason"], row
        ended[sandbox] = row["state"]
    for sandbox, state in ended.items():
        house.check_gone(sandbox, state=state)
    wait_ready(house)
    assert "/direct" not in own.reached() and "/" in own.reached()
    after = house.insist_create()
    house.check_running(after["id"])
    house.insist_delete(after["id"])
    house.check_gone(after["id"])


def test_sandboxes_of_an_engine_with_live_restore_outlive_it(own, house):
    own.stop()
    own.start("--live-restore")
    house.events = Events(own.socket)
    wait_ready(house)
    made = [house.insist_create()["id"] for _ in range(2)]
    for sandbox in made:
        try_the_wall_for_ever(house, sandbox)
    born = [pid_one_start(house, sandbox) for sandbox in made]
    own.kill()
    tries = [check_walled(house, sandbox) for sandbox in made]
    wait_unhealthy(house)
    own.start("--live-restore")
    wait_ready(house)
    for sandbox, n, start in zip(made, tries, born):
        wait_for(lambda: check_walled(house, sandbox) > n, 30, "another try at the wall")
        assert pid_one_start(house, sandbox) == start, "it was made anew"
        assert house.api("GET", f"/v1/sandboxes/{sandbox}")[1]["state"] == "running"
        house.check_running(sandbox)
    assert "/direct" not in own.reached()
    assert all(check_history(house.events, sandbox, house.structure) == 1 for sandbox in made)
    house.events = Events(own.socket)
    for sandbox in made:
        house.insist_delete(sandbox)
    for sandbox in made:
        house.check_gone(sandbox)
