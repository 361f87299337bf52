"""kill -9 of either daemon: sandboxes that run stay usable, and what is running stays running."""

from house import wait_for


def start_marker(house, sandbox):
    """A process that outlives calls: it is found again by its pid and start time."""
    status, done = house.exec(sandbox, ["sh", "-c",
                                        "setsid sh -c 'echo $$ > /tmp/pid; exec sleep 1000' >/dev/null 2>&1 & "
                                        "until [ -s /tmp/pid ]; do sleep 0.05; done; cat /tmp/pid"])
    assert status == 200, done
    return done["stdout"].strip()


def pid_one_start(house, sandbox):
    status, done = house.exec(sandbox, ["sh", "-c", "cut -d' ' -f22 /proc/1/stat"])
    assert status == 200, done
    return done["stdout"]


def test_a_killed_worker_finds_its_sandboxes_again(house, sandbox):
    born = pid_one_start(house, sandbox)
    house.kill("worker")
    status, refused = house.exec(sandbox, ["true"])
    assert status == 503 and refused["error"] == "worker_unreachable", refused
    house.start_worker()
    wait_for(lambda: house.exec(sandbox, ["true"])[0] == 200, 30, "an answer of the sandbox")
    assert pid_one_start(house, sandbox) == born, "the sandbox was made anew"
    status, done = house.exec(sandbox, ["curl", "-sS", "-m", "10", "http://packages.test/"])
    assert done["stdout"] == "hello from upstream\n"
    status, done = house.exec(sandbox, ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                                        "-m", "10", "http://evil.test/"])
    assert done["stdout"] == "403"


def test_a_killed_controller_finds_its_sandboxes_again(house, sandbox):
    born = pid_one_start(house, sandbox)
    house.kill("controller")
    house.start_controller()
    house.wait_ready()
    assert pid_one_start(house, sandbox) == born
    assert house.api("GET", f"/v1/sandboxes/{sandbox}")[1]["state"] == "running"


# Complaint 31: time to live counts only while the API runs.
def test_a_sandbox_that_expires_while_its_worker_is_dead_ends_at_the_restart(house, nothing_left):
    status, made = house.create(timeout_seconds=4)
    assert status == 201, made
    house.kill("worker")
    import time
    deadline = time.time() + 4.5
    wait_for(lambda: time.time() > deadline, 10, "the deadline")
    house.start_worker()
    path = f"/v1/sandboxes/{made['id']}"
    assert wait_for(lambda: (s := house.api("GET", path)[1])["state"] == "stopped" and s, 30,
                    "the end")["reason"] == "timeout"


def test_a_delete_while_the_worker_is_away_is_recorded_and_done_at_its_return(house, nothing_left):
    status, made = house.create()
    assert status == 201, made
    house.kill("worker")
    status, answer = house.api("DELETE", f"/v1/sandboxes/{made['id']}")
    assert status == 202, answer
    house.start_worker()
    wait_for(lambda: not any(made["id"] in name for name in house.leftovers()), 60, "the removal")


def test_a_worker_killed_in_the_middle_of_creates_leaves_nothing_half_made(house, nothing_left):
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        creates = [pool.submit(house.create) for _ in range(3)]
        wait_for(lambda: len(house.objects("containers")) > 0, 20, "a first container")
        house.kill("worker")
        house.start_worker()
        answers = [c.result() for c in creates]
    for status, made in answers:
        if status == 201:
            assert house.exec(made["id"], ["echo", "ok"])[1]["stdout"] == "ok\n"
    for row in house.sandboxes():
        wait_for(lambda: house.api("DELETE", f"/v1/sandboxes/{row['id']}")[0] in (204, 404), 60, "a delete")
    wait_for(lambda: house.leftovers() == [], 90, "nothing left")


def test_the_exit_of_the_first_process_is_noticed(house, nothing_left):
    """Something that ends a container behind our back: the row says so, nothing is left."""
    from house import engine
    status, made = house.create()
    container = next(c for c in house.objects("containers")
                     if c["Labels"]["dev.sandboxkit.sandbox"] == made["id"]
                     and c["Labels"]["dev.sandboxkit.role"] == "sandbox")
    assert engine("POST", f"/containers/{container['Id']}/kill")[0] == 204
    path = f"/v1/sandboxes/{made['id']}"
    row = wait_for(lambda: (s := house.api("GET", path)[1])["state"] in ("stopped", "error") and s, 30,
                   "the noticed end")
    assert row["reason"] != ""
    house.api("DELETE", path)
    wait_for(lambda: not any(made["id"] in name for name in house.leftovers()), 60, "the removal")
