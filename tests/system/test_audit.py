"""The audit log of a real controller: read over the API, verified on its disk, and by a stranger.

A controller alone is enough, so these tests need no engine.
"""
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import pytest

from house import binary
from test_stolen import Controller

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


@pytest.fixture
def controller(tmp_path):
    running = Controller(tmp_path)
    running.folder = tmp_path / "state"
    for number in range(20):
        running.made("POST", "/v1/keys", {"role": "member", "name": f"key {number}"}, running.owner)
    yield running
    running.daemon.stop()


def cli(*args, key=None, port=0):
    env = {**os.environ, "SANDBOXKIT_URL": f"http://127.0.0.1:{port}", "SANDBOXKIT_KEY": key or "none"}
    return subprocess.run([binary("sandboxkit"), *args], env=env, capture_output=True, timeout=60, text=True)


def verify(folder, *more):
    return cli("audit", "verify", "--state-dir", str(folder), *more)


def tamper(folder, sql):
    with sqlite3.connect(folder / "controller.db") as store:
        store.executescript("DROP TRIGGER audit_keeps_rows; DROP TRIGGER audit_loses_a_prefix;" + sql)


def test_the_log_is_listed_to_its_owner_and_verified_while_the_controller_runs(controller):
    listed = cli("audit", "list", "--json", key=controller.owner, port=controller.port)
    lines = json.loads(listed.stdout)["audit"]
    assert [line["action"] for line in lines] == ["key.mint"] * 20
    after = cli("audit", "list", "--json", "--after", lines[14]["id"], key=controller.owner, port=controller.port)
    assert json.loads(after.stdout)["audit"] == lines[15:]
    checked = verify(controller.folder)
    assert (checked.returncode, checked.stdout) == (0, "21 rows, chain intact\n")
    assert json.loads(verify(controller.folder, "--json").stdout)["head"]["hash"] == lines[-1]["id"]


def test_the_document_tells_a_stranger_enough_to_verify_a_copy(controller, tmp_path):
    controller.daemon.stop()
    program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S).group(1)
    assert subprocess.run(["python3", "-c", program], cwd=controller.folder).returncode == 0
    tamper(controller.folder, "UPDATE audit SET actor = 'nobody' WHERE seq = 7;")
    broken = subprocess.run(["python3", "-c", program], cwd=controller.folder, capture_output=True)
    assert broken.returncode != 0


@pytest.mark.parametrize("sql, row, how", [
    ("UPDATE audit SET target = 'x' WHERE seq = 7", 7, "does not fit"),
    ("DELETE FROM audit WHERE seq = 7", 7, "is missing"),
    ("DELETE FROM audit WHERE seq > 18", 19, "missing at the end"),
    ("UPDATE audit SET seq = 100 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; "
     "UPDATE audit SET seq = 4 WHERE seq = 100", 3, "does not fit"),
    ("INSERT INTO audit SELECT 22, time, tenant, actor, action, target, outcome, address, request, 'x' "
     "FROM audit WHERE seq = 21", 22, "inserted"),
], ids=["changed", "removed", "cut off", "swapped", "inserted"])
def test_whoever_touches_the_log_is_found_out(controller, sql, row, how):
    controller.daemon.stop()
    tamper(controller.folder, sql + ";")
    checked = verify(controller.folder)
    assert checked.returncode == 3
    assert checked.stdout.startswith(f"row {row}: ") and how in checked.stdout, checked.stdout


def test_a_folder_without_a_store_is_not_called_intact(tmp_path):
    checked = verify(tmp_path)
    assert checked.returncode == 4, checked
