"""Many walls at once: creates that are posted together, more of them than the worker takes."""
import collections
import concurrent.futures
import json
import os
import threading
import time

import pytest

from house import IMAGE, wait_for
from internet import ALLOWED
from wall_house import Sandbox, WallHouse, ask_proxy, get, status_and_reason

# The long run is that of scripts/test --full.
POSTED = 100 if os.environ.get("SANDBOXKIT_FULL") else 12
TAKEN = POSTED * 9 // 10
JSON = {"Content-Type": "application/json"}
WAIT_SECONDS = 1800  # The worker makes one a core at a time.


@pytest.fixture
def wide_house(internet, own, house, tmp_path):
    built = WallHouse(tmp_path, own, house.structure, worker_options=["--max-sandboxes", str(TAKEN)],
                      controller_options=["--max-sandboxes-per-workspace", str(2 * POSTED),
                                          "--create-wait-ms", str(WAIT_SECONDS * 1000)])
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


def post_together(house, count):
    gate = threading.Barrier(count)
    body = json.dumps({"image": IMAGE, "cpu_cores": 0.05, "memory_mb": 64, "egress": {"allowed_domains": ["ok.test"]}})

    def post(_):
        gate.wait(60)
        status, _, answer = house.request("POST", "/v1/sandboxes", body, None, JSON, WAIT_SECONDS)
        return status, json.loads(answer)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(post, range(count)))


def check_whole(house, made):
    """Each with all the parts of its wall, and no part without a sandbox."""
    parts = collections.Counter((c["Labels"]["dev.sandboxkit.sandbox"], c["Labels"]["dev.sandboxkit.role"], c["State"])
                                for c in house.objects("containers") if c["Labels"].get("dev.sandboxkit.sandbox"))
    roles = ["sandbox", "egress", "anchor"] if house.structure == "internal-net" else ["sandbox"]
    assert parts == {(sandbox, role, "running"): 1 for sandbox in made for role in roles}
    walls = collections.Counter(n["Labels"]["dev.sandboxkit.sandbox"] for n in house.objects("networks")
                                if n["Labels"].get("dev.sandboxkit.sandbox"))
    assert walls == ({sandbox: 1 for sandbox in made} if house.structure == "internal-net" else {})
    folders = {path.name for path in (house.worker_folder / "sandboxes").iterdir()}
    assert {name for name in folders if not name.startswith("probe-")} == set(made)


def check_wall(house, answer):
    sandbox = Sandbox(house, answer)
    told = [status_and_reason(each) for each in ask_proxy(sandbox, [get("http://ok.test/"), get("http://evil.test/")])]
    assert told == ["200", "403 not_in_allow_list"], told


def test_creates_that_are_posted_together_are_whole_or_refused(internet, wide_house):
    begun = time.monotonic()
    with internet.only((ALLOWED, 80), names=["ok.test"]):
        answers = post_together(wide_house, POSTED)
        took = time.monotonic() - begun
        made = [answer for status, answer in answers if status == 201]
        refused = [(status, answer.get("error")) for status, answer in answers if status != 201]
        assert set(refused) == {(503, "no_capacity")} and len(made) == TAKEN, (len(made), collections.Counter(refused))
        assert {answer["state"] for answer in made} == {"running"}
        check_whole(wide_house, [answer["id"] for answer in made])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda answer: check_wall(wide_house, answer), made))
            begun = time.monotonic()
            list(pool.map(lambda answer: wide_house.api("DELETE", f"/v1/sandboxes/{answer['id']}"), made))
        wait_for(lambda: not wide_house.leftovers(), 120, "the end of all")
    print(f"{wide_house.structure}: {len(made)} walls of {POSTED} creates posted together in {took:.0f} s, "
          f"all removed in {time.monotonic() - begun:.0f} s")
