"""Bad input gets a clear error with the field's name and a stable name; nothing is half made."""
import json
import socket
import subprocess

import pytest

from house import IMAGE, Daemon, House, binary, wait_for

GOOD = {"image": IMAGE, "egress": {"allowed_domains": []}}

BODIES = [
    ("not json", b"{", 400, "invalid_json", None),
    ("an array", b"[]", 400, "invalid_argument", None),
    ("a duplicate member", b'{"image": "a", "image": "b"}', 400, "invalid_json", None),
    ("bytes that are not UTF-8", b'{"image": "\xff"}', 400, "invalid_json", None),
    ("deep nesting", b'{"metadata": ' + b"[" * 100 + b"]" * 100 + b"}", 413, "too_large", None),
    ("an unknown field", {**GOOD, "imgae": "x"}, 400, "unknown_field", "imgae"),
    ("an unknown nested field", {**GOOD, "egress": {"allowed_domains": [], "allow": []}}, 400, "unknown_field", "egress.allow"),
    ("no image", {"egress": None}, 400, "invalid_argument", "image"),
    ("an image with a NUL", {**GOOD, "image": "a\0b"}, 400, "invalid_argument", "image"),
    ("an image with a space", {**GOOD, "image": "a b"}, 400, "invalid_argument", "image"),
    ("a name with a control character", {**GOOD, "name": "a\x1b[31mb"}, 400, "invalid_argument", "name"),
    ("a name that is too long", {**GOOD, "name": "a" * 64}, 400, "invalid_argument", "name"),
    ("a number as text", {**GOOD, "memory_mb": "512"}, 400, "invalid_argument", "memory_mb"),
    ("no memory", {**GOOD, "memory_mb": 0}, 400, "invalid_argument", "memory_mb"),
    ("a negative timeout", {**GOOD, "timeout_seconds": -1}, 400, "invalid_argument", "timeout_seconds"),
    ("an unknown profile", {**GOOD, "profile": "root"}, 400, "invalid_argument", "profile"),
    ("an address in the allow-list", {**GOOD, "egress": {"allowed_domains": ["a.test", "10.0.0.1"]}}, 400, "invalid_argument", "egress.allowed_domains[1]"),
    ("a wide wildcard", {**GOOD, "egress": {"allowed_domains": ["*.com"]}}, 400, "invalid_argument", "egress.allowed_domains[0]"),
    ("egress of another kind", {**GOOD, "egress": "none"}, 400, "invalid_argument", "egress"),
    ("a bad environment name", {**GOOD, "env": {"A=B": "c"}}, 400, "invalid_argument", "env"),
    ("the tenant in the body", {**GOOD, "tenant": "other"}, 400, "unknown_field", "tenant"),
    ("the workspace in the body", {**GOOD, "workspace": "other"}, 400, "unknown_field", "workspace"),
    ("an image that does not exist", {**GOOD, "image": "no/such:image"}, 409, "image_not_found", "image"),
    ("a runtime that no worker has", {**GOOD, "runtime": "kata"}, 409, "worker_capability_unavailable", None),
    ("more memory than any worker has", {**GOOD, "memory_mb": 16_000_000}, 409, "worker_capability_unavailable", None),
    ("persistence that nobody offers", {**GOOD, "persistence": "workspace"}, 409, "worker_capability_unavailable", None),
]


@pytest.mark.parametrize("body,status,error,field", [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_bad_create_is_refused_by_name(house, nothing_left, body, status, error, field):
    got, answer = house.api("POST", "/v1/sandboxes", body)
    assert (got, answer["error"], answer.get("field")) == (status, error, field), answer
    assert answer["code"] == status and len(answer["message"]) > 8
    assert house.sandboxes() == []


def test_a_body_past_the_limit_is_refused_before_it_is_read(house, nothing_left):
    status, answer = house.api("POST", "/v1/sandboxes", b'{"image": "' + b"a" * (2 << 20) + b'"}')
    assert status == 413 and answer["error"] == "body_too_large"


def test_a_head_past_the_limit_is_refused(house):
    connection = socket.create_connection(("127.0.0.1", house.port), timeout=10)
    connection.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX-Big: " + b"a" * 70_000 + b"\r\n\r\n")
    answer = connection.recv(65536)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 431 ") and b"head_too_large" in answer


@pytest.mark.parametrize("path,error", [
    ("/v1/nothing", "route_not_found"),
    ("/v1/sandboxes/inothing", "sandbox_not_found"),
    ("/v1/workers/w-none", "worker_not_found"),
])
def test_what_is_absent_is_404_with_a_name(house, path, error):
    status, answer = house.api("GET", path)
    assert (status, answer["error"]) == (404, error)


def test_a_wrong_method_is_405(house):
    status, headers, data = house.request("PATCH", "/v1/sandboxes")
    assert status == 405 and json.loads(data)["error"] == "method_not_allowed" and "POST" in headers["Allow"]


@pytest.mark.parametrize("key", ["", "nonsense", "sk_AAAAAAAA_" + "B" * 38, "Bearer"])
def test_without_a_good_credential_there_is_401(house, key):
    status, answer = house.api("GET", "/v1/sandboxes", key=key)
    assert (status, answer["error"]) == (401, "unauthenticated")


@pytest.mark.parametrize("path,status,error", [
    ("/tmp/a%00b", 400, "invalid_argument"),
    ("/no/such/file", 404, "file_not_found"),
    ("/tmp", 400, "is_a_directory"),
    ("/etc/shadow", 403, "permission_denied"),
    ("/dev/zero", 400, None),
    ("a" * 5000, 400, None),
])
def test_a_bad_file_path_is_refused_by_name(house, sandbox, path, status, error):
    got, answer = house.api("GET", f"/v1/sandboxes/{sandbox}/files?path={path}")
    assert got == status, answer
    assert error is None or answer["error"] == error
    assert answer["code"] == status and (status != 400 or answer["field"] == "path")


def test_a_missing_path_parameter_is_named(house, sandbox):
    status, answer = house.api("GET", f"/v1/sandboxes/{sandbox}/files")
    assert status == 400 and answer["field"] == "path"


@pytest.mark.parametrize("body,field", [
    ({}, "command"), ({"command": []}, "command"), ({"command": "ls"}, "command"),
    ({"command": ["ls"], "cwd": "/no/such"}, "cwd"), ({"command": ["ls"], "nope": 1}, "nope"),
    ({"command": ["a\0b"]}, "command[0]"), ({"command": ["ls"], "user": "nobody-here"}, "user"),
])
def test_a_bad_exec_is_refused_by_name(house, sandbox, body, field):
    status, answer = house.api("POST", f"/v1/sandboxes/{sandbox}/exec", body)
    assert status in (400, 401, 403), answer
    assert answer["field"] == field


def test_a_command_that_does_not_exist_says_so(house, sandbox):
    done = house.cli("exec", sandbox, "--", "no-such-command")
    assert done.returncode == 127
    assert b"no-such-command" in done.stderr


def test_a_full_disk_in_the_sandbox_is_507_and_leaves_no_part(house, sandbox):
    # /dev/shm is the sandbox's own small memory disk.
    status, _, data = house.request("PUT", f"/v1/sandboxes/{sandbox}/files?path=/dev/shm/big", b"x" * (200 << 20))
    assert status == 507 and json.loads(data)["error"] == "no_space", data
    status, done = house.exec(sandbox, ["sh", "-c", "ls -A /dev/shm | wc -l"])
    assert done["stdout"].strip() == "0"


def test_a_full_disk_under_the_controller_is_503_and_makes_nothing(upstream, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    try:
        (folder / "controller").mkdir()
        small = House(folder, upstream.address)
        try:
            with open(folder / "filler", "wb", buffering=0) as filler:
                with pytest.raises(OSError):
                    while True:
                        filler.write(b"\0" * 4096)
            status, answer = small.create()
            assert (status, answer["error"]) == (503, "store_unavailable"), answer
            assert small.leftovers() == []
            (folder / "filler").unlink()
            status, made = small.create()
            assert status == 201, "it works again once there is room"
        finally:
            assert small.close() == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_an_engine_that_is_down_is_said_and_the_worker_does_not_offer_itself(house, tmp_path):
    status, made = house.api("POST", "/v1/join-tokens", {"name": "w-down"})
    assert status == 201
    down = Daemon([binary("sandboxkit-worker"), "--controller", house.url, "--state-dir", str(tmp_path / "w"),
                   "--join-token", made["token"], "--name", "w-down", "--engine-socket", str(tmp_path / "none.sock"),
                   "--guest-binary", binary("sandboxkit-guest"), "--egress-binary", binary("sandboxkit-egress")],
                  tmp_path / "log")
    try:
        down.process.wait(30)
        log = (tmp_path / "log").read_text()
        assert down.process.returncode != 0
        assert "none.sock" in log and "engine" in log
    finally:
        down.stop()


def test_a_killed_client_takes_its_command_with_it(house, sandbox):
    process = house.cli_process("exec", sandbox, "--", "sh", "-c", "echo started; exec sleep 987")
    assert process.stdout.readline() == b"started\n"
    process.kill()
    process.wait(10)
    wait_for(lambda: house.exec(sandbox, ["pgrep", "-f", "sleep 987"])[1]["exit_code"] == 1, 20,
             "the end of the command")


def test_a_killed_upload_leaves_the_old_file_and_no_part(house, sandbox):
    assert house.request("PUT", f"/v1/sandboxes/{sandbox}/files?path=/tmp/keep", b"old")[0] == 200
    connection = socket.create_connection(("127.0.0.1", house.port), timeout=10)
    connection.sendall((f"PUT /v1/sandboxes/{sandbox}/files?path=/tmp/keep HTTP/1.1\r\nHost: x\r\n"
                        f"Authorization: Bearer {house.owner_key}\r\nContent-Length: 100000000\r\n\r\n").encode()
                       + b"new" * 100_000)
    connection.close()
    wait_for(lambda: house.exec(sandbox, ["sh", "-c", "ls -A /tmp | grep -v '^keep$'; cat /tmp/keep"])[1]["stdout"] == "old",
             20, "only the old file")


def test_a_worker_state_folder_holds_no_secret_that_others_can_read(house):
    for path in (house.folder / "controller", house.folder / "worker"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (house.folder / "worker" / "worker.json").stat().st_mode & 0o077 == 0
    assert (house.folder / "controller" / "operator.key").stat().st_mode & 0o077 == 0
