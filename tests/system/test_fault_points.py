"""kill -9 at every named step of a delivery: nothing lost, doubled, left over, or running unwalled.

Each case starts one daemon with SANDBOXKIT_FAULT, lets a client do what reaches the point, holds
that the daemon died there, starts it again, and looks at what there is. CONTRIBUTING.md says how to
run one point by hand.
"""
import itertools

import pytest

from faults import FaultHouse, fault_points
from house import wait_for

# point -> (daemon, what the client does, which pass of the point). The worker's probe of its engine
# makes and removes a walled sandbox of its own: the second pass of a driver's point is the client's.
CASES = {
    "control.create.before_commit": ("controller", "create", 1),
    "control.create.committed": ("controller", "create", 1),
    "control.order.before_send": ("controller", "create", 1),
    "control.order.sent": ("controller", "create", 1),
    "control.order.answered": ("controller", "create", 1),
    "control.settle.before_commit": ("controller", "create", 1),
    "control.settle.committed": ("controller", "create", 1),
    "control.delete.committed": ("controller", "delete", 1),
    "control.renew.committed": ("controller", "renew", 1),
    "control.inventory.settled": ("controller", "delete", 1),
    "control.heartbeat.settled": ("controller", "renew", 1),
    "work.order.received": ("worker", "create", 1),
    "work.create.journaled": ("worker", "create", 1),
    "work.create.made": ("worker", "create", 1),
    "work.create.running": ("worker", "create", 1),
    "work.remove.journaled": ("worker", "delete", 1),
    "work.remove.removed": ("worker", "delete", 1),
    "work.remove.ended": ("worker", "delete", 1),
    "work.renew.journaled": ("worker", "renew", 1),
    "work.expiry.begun": ("worker", "expiry", 1),
    "docker.wall.made": ("worker", "create", 2),
    "docker.sidecar.made": ("worker", "create", 2),
    "docker.sidecar.joined": ("worker", "create", 2),
    "docker.sidecar.started": ("worker", "create", 2),
    "docker.sidecar.serves": ("worker", "create", 2),
    "docker.sandbox.made": ("worker", "create", 2),
    "docker.sandbox.started": ("worker", "create", 2),
    "docker.guest.connected": ("worker", "create", 2),
    "docker.remove.sandbox_gone": ("worker", "delete", 2),
    "docker.remove.containers_gone": ("worker", "delete", 2),
    "docker.remove.wall_gone": ("worker", "delete", 2),
}
# The same steps of the controller, of a delete and of a renewal.
MORE = [(point, "controller", operation, 1)
        for point in ("control.order.sent", "control.settle.before_commit", "control.settle.committed")
        for operation in ("delete", "renew")]
# Reached by tests of their own below.
APART = ["store.commit.before", "store.commit.after", "work.adopt.undone"]
# Which commits of a process die, its start's own included. After one and before the next differ in
# what callers were told alone, so that a few are enough.
COMMITS = {"store.commit.before": range(1, 6), "store.commit.after": (2, 4)}


@pytest.fixture(scope="module")
def house(upstream, tmp_path_factory):
    built = FaultHouse(tmp_path_factory.mktemp("faults"), upstream.address,
                       worker_options=["--reconcile-interval-ms", "2000"])
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


def test_every_fault_point_has_a_case():
    assert sorted([*CASES, *APART]) == sorted(fault_points())


def die(house, which, point, times, act, heard=False):
    """Lets `act` run into the point; returns what it answers after the daemon came back."""
    house.arm(which, f"{point}:{times}", heard=heard)
    answer = house.pool.submit(act)
    house.expect_death(which, point)
    house.revive(which)
    return answer.result(120)


def end(house, sandbox, **audit):
    house.insist_delete(sandbox)
    house.check_gone(sandbox)
    house.check_audit(sandbox, create=1, delete=1, **audit)


def dies_in_create(house, which, point, times):
    made = die(house, which, point, times, house.insist_create, heard=times > 1)
    house.check_running(made["id"])
    end(house, made["id"])


def dies_in_delete(house, which, point, times):
    made = house.insist_create()
    die(house, which, point, times, lambda: house.insist_delete(made["id"]), heard=times > 1)
    house.check_gone(made["id"])
    house.check_audit(made["id"], create=1, delete=1)


def dies_in_renew(house, which, point, times):
    made = house.insist_create()
    die(house, which, point, times, lambda: house.insist_renew(made["id"], 7200))
    wait_for(lambda: house.journal_expiry(made["id"]) == house.store_expiry(made["id"]), 60,
             "worker and controller agree on the end")
    assert house.api("GET", f"/v1/sandboxes/{made['id']}")[1]["expires_at"] > made["expires_at"]
    house.check_running(made["id"])
    end(house, made["id"])


def dies_in_expiry(house, which, point, times):
    made = house.insist_create()
    die(house, which, point, times, lambda: house.insist_renew(made["id"], 1))
    house.check_gone(made["id"], state="stopped", reason="timeout")
    house.check_audit(made["id"], create=1, delete=0)


DIES_IN = {"create": dies_in_create, "delete": dies_in_delete, "renew": dies_in_renew,
           "expiry": dies_in_expiry}


def in_turns():
    """A worker whose controller went away often waits longer and longer before it dials again; one
    that was started anew does not."""
    every = [(point, *case) for point, case in CASES.items()] + MORE
    turns = itertools.zip_longest(*([case for case in every if case[1] == which]
                                    for which in ("worker", "controller")))
    return [case for turn in turns for case in turn if case]


@pytest.mark.parametrize("point,which,operation,times", in_turns())
def test_a_death_leaves_nothing_behind(house, point, which, operation, times):
    DIES_IN[operation](house, which, point, times)


def test_a_worker_that_dies_while_it_clears_up_after_a_death(house):
    house.arm("worker", "docker.sidecar.started:2")
    answer = house.pool.submit(house.insist_create)
    house.expect_death("worker", "docker.sidecar.started")
    house.arm("worker", "work.adopt.undone", heard=False)
    house.expect_death("worker", "work.adopt.undone")
    house.revive("worker")
    made = answer.result(120)
    house.check_running(made["id"])
    end(house, made["id"])


def test_a_worker_that_dies_while_it_probes_its_engine_leaves_no_probe_behind(house):
    house.arm("worker", "docker.sidecar.serves", heard=False)
    house.expect_death("worker", "docker.sidecar.serves")
    assert house.leftovers() != []
    house.revive("worker")
    wait_for(lambda: house.leftovers() == [], 60, "the probe's remains are gone")


@pytest.mark.parametrize("which", ["controller", "worker"])
@pytest.mark.parametrize("point", COMMITS)
def test_a_death_at_any_commit(house, which, point):
    """Whichever commit of creates and deletes it is, the start's own included."""
    for times in COMMITS[point]:
        house.kill_if_running("worker")
        house.spawn_worker()  # See in_turns.
        house.arm(which, f"{point}:{times}", heard=False)
        answer = house.pool.submit(go_on_until_dead, house, which)
        house.expect_death(which, point)
        house.revive(which)
        for sandbox in answer.result(120):
            house.check_gone(sandbox)
            house.check_audit(sandbox, create=1, delete=1)


def go_on_until_dead(house, which):
    """Whole lives of sandboxes, at least one, the last one begun before the daemon's return."""
    daemon = getattr(house, which)
    done = []
    while not done or daemon.process.poll() is None:
        made = house.insist_create()
        house.check_running(made["id"])
        house.insist_delete(made["id"])
        done.append(made["id"])
    return done
