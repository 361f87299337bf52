"""The main job: a walled sandbox for a tenant, through controller, scheduler, worker and guest."""
import base64
import concurrent.futures
import hashlib
import json
import os
import subprocess

from house import engine, wait_for


def fetch(host):
    return ["sh", "-c", f"curl -sS -m 10 http://{host}/"]


def test_run_reaches_the_allowed_host_and_is_refused_another(house, upstream, nothing_left):
    done = house.cli("run", "--allow", "packages.test", "--", "sh", "-c",
                     "curl -sS -m 10 http://packages.test/; "
                     "curl -s -m 10 -o /dev/null -w '%{http_code}\\n' http://elsewhere.test/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "hello from upstream\n403\n"
    assert ("packages.test", "/") in upstream.seen


def test_a_refused_request_is_told_to_the_sandbox_and_listed_for_its_owner(house, sandbox):
    status, done = house.exec(sandbox, ["curl", "-si", "-m", "10", "http://evil.test:8080/x"])
    assert status == 200, done
    assert "403" in done["stdout"].splitlines()[0]
    assert "X-Sandboxkit-Egress: denied; reason=" in done["stdout"]
    status, denied = house.api("GET", f"/v1/sandboxes/{sandbox}/egress/denied")
    assert status == 200
    assert [(d["host"], d["port"], d["count"]) for d in denied["denied"]] == [("evil.test", 8080, 1)]


def test_without_the_proxy_there_is_no_way_out(house, sandbox, upstream):
    direct = ["sh", "-c", f"curl --noproxy '*' -sS -m 3 http://{upstream.address}/; echo $?"]
    status, done = house.exec(sandbox, direct)
    assert status == 200 and done["stdout"].strip() in ("7", "28"), done
    status, done = house.exec(sandbox, ["sh", "-c", "cat /proc/net/route | wc -l"])
    # The header and the sandbox's own /29; on engines that add a default route, nobody answers there.
    assert int(done["stdout"]) <= 3
    status, done = house.exec(sandbox, ["python3", "-c",
                                        "import socket\ntry: print(socket.gethostbyname('example.org'))\n"
                                        "except OSError as e: print('no answer')"])
    assert done["stdout"] == "no answer\n"


def test_the_first_instruction_already_runs_behind_the_wall(house):
    """The structure as the engine has it: only the internal network, and it was there at the start."""
    status, made = house.create()
    assert status == 201, made
    try:
        container = next(c for c in house.objects("containers")
                         if c["Labels"]["dev.sandboxkit.sandbox"] == made["id"]
                         and c["Labels"]["dev.sandboxkit.role"] == "sandbox")
        sidecar = next(c for c in house.objects("containers")
                       if c["Labels"]["dev.sandboxkit.sandbox"] == made["id"]
                       and c["Labels"]["dev.sandboxkit.role"] == "egress")
        _, sandbox_state = engine("GET", f"/containers/{container['Id']}/json")
        anchor = sandbox_state["HostConfig"]["NetworkMode"].removeprefix("container:")
        assert sandbox_state["NetworkSettings"]["Networks"] == {}
        _, anchor_state = engine("GET", f"/containers/{anchor}/json")
        assert anchor_state["Config"]["Labels"]["dev.sandboxkit.sandbox"] == made["id"]
        _, sidecar_state = engine("GET", f"/containers/{sidecar['Id']}/json")
        networks = anchor_state["NetworkSettings"]["Networks"]
        assert len(networks) == 1
        _, network = engine("GET", f"/networks/{next(iter(networks.values()))['NetworkID']}")
        assert network["Internal"] is True
        assert network["Options"]["com.docker.network.bridge.inhibit_ipv4"] == "true"
        assert sidecar_state["State"]["StartedAt"] < sandbox_state["State"]["StartedAt"]
        assert sandbox_state["HostConfig"]["CapDrop"] == ["ALL"]
        assert "no-new-privileges" in sandbox_state["HostConfig"]["SecurityOpt"]
    finally:
        house.api("DELETE", f"/v1/sandboxes/{made['id']}")


def test_a_dead_sidecar_means_no_egress(house, sandbox):
    sidecar = next(c for c in house.objects("containers")
                   if c["Labels"]["dev.sandboxkit.sandbox"] == sandbox
                   and c["Labels"]["dev.sandboxkit.role"] == "egress")
    assert engine("POST", f"/containers/{sidecar['Id']}/pause")[0] == 204
    status, done = house.exec(sandbox, ["sh", "-c", "curl -s -m 3 http://packages.test/; echo $?"])
    assert status == 200 and done["stdout"] == "28\n", done
    assert engine("POST", f"/containers/{sidecar['Id']}/unpause")[0] == 204
    status, done = house.exec(sandbox, fetch("packages.test"))
    assert done["stdout"] == "hello from upstream\n"


def test_streams_stay_apart_and_the_exit_code_comes_back(house, sandbox):
    done = house.cli("exec", sandbox, "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"out\n", b"err\n")
    status, answer = house.exec(sandbox, ["sh", "-c", "echo out; echo err >&2; kill -9 $$"])
    assert status == 200
    assert (answer["stdout"], answer["stderr"], answer["signal"]) == ("out\n", "err\n", "SIGKILL")


def test_streaming_exec_gives_events_as_they_happen(house, sandbox):
    body = json.dumps({"command": ["sh", "-c", "echo one; read line; echo two"], "stream": True,
                       "stdin_base64": base64.b64encode(b"go\n").decode()})
    status, headers, data = house.request("POST", f"/v1/sandboxes/{sandbox}/exec", body,
                                          headers={"Content-Type": "application/json"})
    assert status == 200 and headers["Content-Type"] == "application/x-ndjson"
    events = [json.loads(line) for line in data.splitlines()]
    assert events[0]["type"] == "start" and events[0]["pid"] > 1
    out = b"".join(base64.b64decode(e["data"]) for e in events if e["type"] == "stdout")
    assert out == b"one\ntwo\n"
    assert events[-1]["type"] == "exit" and events[-1]["exit_code"] == 0


def test_exec_honours_user_environment_directory_and_deadline(house, sandbox):
    status, done = house.exec(sandbox, ["sh", "-c", "id -un; pwd; echo $X"], env={"X": "y z"}, cwd="/tmp")
    assert status == 200 and done["stdout"] == "user\n/tmp\ny z\n"
    status, done = house.exec(sandbox, ["sh", "-c", "sleep 60 & sleep 60"], timeout_seconds=1)
    assert status == 200 and done["timed_out"] is True
    status, done = house.exec(sandbox, ["sh", "-c", "pgrep -c sleep; true"])
    assert done["stdout"].strip() == "0"


def test_a_shell_has_a_terminal(house, sandbox):
    script = f"""
import os, pty, sys, time, select
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "shell", {sandbox!r}])
out = b""
def until(mark):
    global out
    while mark not in out:
        if not select.select([fd], [], [], 20)[0]:
            print(out); sys.exit("no " + repr(mark))
        out += os.read(fd, 4096)
until(b"$")
os.write(fd, b"stty size; tty; echo do''ne\\n")
until(b"done")
os.write(fd, b"exit 7\\n")
status = os.waitpid(pid, 0)[1]
print(out.decode(), os.WEXITSTATUS(status))
"""
    from house import binary
    env = {**os.environ, "SANDBOXKIT_URL": house.url, "SANDBOXKIT_KEY": house.owner_key}
    done = subprocess.run(["python3", "-c", script, binary("sandboxkit")], env=env,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"/dev/pts/" in done.stdout and done.stdout.rstrip().endswith(b" 7")


def test_a_tcp_forward_reaches_a_port_inside(house, sandbox):
    import socket
    status, done = house.exec(sandbox, ["sh", "-c",
                                        "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & "
                                        "until curl --noproxy '*' -so /dev/null http://127.0.0.1:8123/; do sleep 0.1; done; "
                                        "setsid true"], timeout_seconds=20)
    assert status == 200, done
    # The exec's process group ended with it: start one that stays, through the envd calls.
    body = json.dumps({"process": {"cmd": "/usr/bin/python3", "args": ["-m", "http.server", "8124", "--bind", "127.0.0.1"]},
                       "stdin": False}).encode()
    connection = socket.create_connection(("127.0.0.1", house.port), timeout=20)
    envelope = b"\0" + len(body).to_bytes(4, "big") + body
    connection.sendall((f"POST /v1/sandboxes/{sandbox}/rpc/process.Process/Start HTTP/1.1\r\nHost: x\r\n"
                        f"Authorization: Bearer {house.owner_key}\r\nContent-Type: application/connect+json\r\n"
                        f"Connect-Protocol-Version: 1\r\nContent-Length: {len(envelope)}\r\n\r\n").encode() + envelope)
    assert b"200" in connection.recv(4096)
    connection.close()  # the process stays: closing a Connect stream does not end it

    def answered():
        raw = socket.create_connection(("127.0.0.1", house.port), timeout=20)
        raw.sendall((f"GET /v1/sandboxes/{sandbox}/tcp/8124 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                     f"Upgrade: tcp\r\nAuthorization: Bearer {house.owner_key}\r\n\r\n").encode())
        head = raw.recv(4096)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raw.close()
            return None
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        data = b""
        while chunk := raw.recv(4096):
            data += chunk
        raw.close()
        return data
    assert b"Directory listing" in wait_for(answered, 20, "an answer through the forward")


def test_one_gibibyte_goes_up_and_down_with_the_same_hash_and_flat_memory(house, sandbox, tmp_path):
    size = int(os.environ.get("SANDBOXKIT_BIG_FILE_MIB", "1024"))
    source, back = tmp_path / "big", tmp_path / "back"
    digest = hashlib.sha256()
    with open(source, "wb") as out:
        for _ in range(size):
            block = os.urandom(1 << 20)
            digest.update(block)
            out.write(block)
    before = {name: getattr(house, name).rss_kib() for name in ("controller", "worker")}
    up = house.cli("cp", str(source), f"{sandbox}:/tmp/big", timeout=300)
    assert up.returncode == 0, up.stderr
    status, inside = house.exec(sandbox, ["sha256sum", "/tmp/big"])
    assert inside["stdout"].split()[0] == digest.hexdigest()
    down = house.cli("cp", f"{sandbox}:/tmp/big", str(back), timeout=300)
    assert down.returncode == 0, down.stderr
    with open(back, "rb") as read:
        assert hashlib.file_digest(read, "sha256").hexdigest() == digest.hexdigest()
    for name, rss in before.items():
        grown = getattr(house, name).peak_kib() - rss
        assert grown < 64 * 1024, f"{name} grew by {grown} KiB while {size} MiB passed"
    status, guest = house.exec(sandbox, ["sh", "-c", "grep VmHWM /proc/1/status | tr -dc 0-9"])
    assert int(guest["stdout"]) < 16 * 1024, "the guest held the file in memory"
    house.exec(sandbox, ["rm", "/tmp/big"])


def test_many_rounds_leave_nothing_behind(house, nothing_left):
    rounds = int(os.environ.get("SANDBOXKIT_ROUNDS", "200"))

    def one(number):
        status, made = house.create(metadata={"round": str(number)})
        assert status == 201, made
        status, done = house.exec(made["id"], ["echo", str(number)])
        assert status == 200 and done["stdout"] == f"{number}\n", done
        status, answer = house.api("DELETE", f"/v1/sandboxes/{made['id']}")
        assert status == 204, answer

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(rounds)))
    assert house.sandboxes() == []


def test_an_unwalled_sandbox_says_so(house, nothing_left):
    status, made = house.create(egress=None)
    assert status == 201, made
    assert made["egress"] is None and made["policy_hash"] == ""
    assert house.api("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204


def test_time_to_live_ends_a_sandbox_and_says_why(house, nothing_left):
    status, made = house.create(timeout_seconds=2)
    assert status == 201, made
    path = f"/v1/sandboxes/{made['id']}"
    ended = wait_for(lambda: (s := house.api("GET", path)[1])["state"] == "stopped" and s, 30, "the end")
    assert ended["reason"] == "timeout"
    status, refused = house.exec(made["id"], ["true"])
    assert status == 409 and refused["error"] == "sandbox_not_running" and "timeout" in refused["message"]


def test_a_renewal_moves_the_end(house):
    status, made = house.create(timeout_seconds=3)
    path = f"/v1/sandboxes/{made['id']}"
    status, renewed = house.api("POST", path + "/timeout", {"timeout_seconds": 600})
    assert status == 200, renewed
    assert renewed["expires_at"] > made["expires_at"]
    probe = house.create(timeout_seconds=3)[1]["id"]
    wait_for(lambda: house.api("GET", f"/v1/sandboxes/{probe}")[1]["state"] == "stopped", 30, "the probe's end")
    assert house.exec(made["id"], ["echo", "alive"])[1]["stdout"] == "alive\n"
    assert house.api("DELETE", path)[0] == 204
