#!/usr/bin/env python3
"""Speed of each path through controller, tunnel, worker and guest, as ratios to the engine's own
calls in the same run.

Usage: SANDBOXKIT_BUILD=build tests/bench/paths.py [--rounds 10] [--big-mib 1024]

Needs root and an engine with sandboxkit/base (scripts/build-image). Rounds are interleaved, medians
are printed, and ratios are ours / the engine's: below 1 is faster. The milliseconds are this machine's.
"""
import argparse
import hashlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from house import ENGINE, IMAGE, House, UnixHttp, Upstream, engine  # noqa: E402


def timed(call):
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1000, result


class Engine:
    """A plain container and the engine's calls on it."""

    def __init__(self):
        status, made = engine("POST", "/containers/create", {
            "Image": IMAGE, "Cmd": ["sleep", "100000"], "Labels": {"dev.sandboxkit.bench": "1"}})
        assert status == 201, made
        self.id = made["Id"]
        assert engine("POST", f"/containers/{self.id}/start")[0] == 204
        self.connection = UnixHttp(ENGINE, timeout=300)

    def close(self):
        engine("DELETE", f"/containers/{self.id}?force=1")

    def exec_api(self, command):
        _, made = engine("POST", f"/containers/{self.id}/exec",
                         {"AttachStdout": True, "AttachStderr": True, "Cmd": command})
        status, _ = engine("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        assert status == 200
        assert engine("GET", f"/exec/{made['Id']}/json")[1]["ExitCode"] == 0


class Kept:
    """One kept-alive connection to the controller, as an SDK has."""

    def __init__(self, house):
        self.house = house
        self.connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=300)

    def call(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, {"Authorization": f"Bearer {self.house.owner_key}",
                                                     **(headers or {})})
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status in (200, 201, 204), (answer.status, data[:500])
        return data


def bench_create(house, rounds, rows):
    kept = Kept(house)
    samples = {name: [] for name in ("walled create + exec", "unwalled create + exec", "docker run (CLI)",
                                     "engine create+start+wait (API)", "delete walled")}
    for _ in range(rounds):
        def docker_run():
            subprocess.run(["docker", "--host", f"unix://{ENGINE}", "run", "--rm", IMAGE, "true"],
                           check=True, capture_output=True)

        def engine_run():
            _, made = engine("POST", "/containers/create", {"Image": IMAGE, "Cmd": ["true"]})
            engine("POST", f"/containers/{made['Id']}/start")
            engine("POST", f"/containers/{made['Id']}/wait")
            return made["Id"]

        def ours(egress):
            def run():
                made = json.loads(kept.call("POST", "/v1/sandboxes", json.dumps({"image": IMAGE, "egress": egress})))
                kept.call("POST", f"/v1/sandboxes/{made['id']}/exec", json.dumps({"command": ["true"]}))
                return made["id"]
            return run

        for name, egress in (("walled create + exec", {"allowed_domains": ["a.test"]}), ("unwalled create + exec", None)):
            ms, made = timed(ours(egress))
            samples[name].append(ms)
            ms, _ = timed(lambda made=made: kept.call("DELETE", f"/v1/sandboxes/{made}"))
            if egress:
                samples["delete walled"].append(ms)
        samples["docker run (CLI)"].append(timed(docker_run)[0])
        ms, container = timed(engine_run)
        samples["engine create+start+wait (API)"].append(ms)
        engine("DELETE", f"/containers/{container}?force=1")
    rows.append(("walled create + exec", samples["walled create + exec"], "docker run (CLI)", samples["docker run (CLI)"]))
    rows.append(("walled create + exec", samples["walled create + exec"], "engine API", samples["engine create+start+wait (API)"]))
    rows.append(("unwalled create + exec", samples["unwalled create + exec"], "docker run (CLI)", samples["docker run (CLI)"]))
    rows.append(("delete walled", samples["delete walled"], "docker run (CLI)", samples["docker run (CLI)"]))


def bench_exec(house, rounds, rows, sandbox, plain):
    kept = Kept(house)
    body = json.dumps({"command": ["true"]})
    ours, api, cli = [], [], []
    for _ in range(rounds):
        ours += [timed(lambda: kept.call("POST", f"/v1/sandboxes/{sandbox}/exec", body))[0] for _ in range(10)]
        api.append(timed(lambda: plain.exec_api(["true"]))[0])
        cli.append(timed(lambda: subprocess.run(["docker", "--host", f"unix://{ENGINE}", "exec", plain.id, "true"],
                                                check=True))[0])
    rows.append(("exec true", ours, "engine exec (API)", api))
    rows.append(("exec true", ours, "docker exec (CLI)", cli))


def bench_files(house, rounds, rows, sandbox, plain, big_mib):
    kept = Kept(house)
    files = f"/v1/sandboxes/{sandbox}/files?path="

    def archive_get(path):
        plain.connection.request("GET", f"/v1.41/containers/{plain.id}/archive?path={path}")
        answer = plain.connection.getresponse()
        while answer.read(1 << 20):
            pass

    for name, size, count in (("1 KiB", 1024, rounds), (f"{big_mib} MiB", big_mib << 20, 2)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "data"
            path.write_bytes(os.urandom(1024) * (size // 1024))
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            up, down, docker_up, docker_down = [], [], [], []
            for _ in range(count):
                with open(path, "rb") as data:
                    up.append(timed(lambda: kept.call("PUT", files + "/tmp/data", data,
                                                      {"Content-Length": str(size)}))[0])

                def read_back():
                    kept.connection.request("GET", files + "/tmp/data", headers={"Authorization": f"Bearer {house.owner_key}"})
                    answer = kept.connection.getresponse()
                    total = hashlib.sha256() if count == 2 else None
                    while piece := answer.read(1 << 20):
                        if total:
                            total.update(piece)
                    return total
                ms, total = timed(read_back)
                if total:
                    assert total.hexdigest() == digest, "the file came back changed"
                down.append(ms)
                docker_up.append(timed(lambda: subprocess.run(
                    ["docker", "--host", f"unix://{ENGINE}", "cp", str(path), f"{plain.id}:/tmp/data"],
                    check=True, capture_output=True))[0])
                docker_down.append(timed(lambda: archive_get("/tmp/data"))[0])
            rows.append((f"file up {name}", up, "docker cp", docker_up))
            rows.append((f"file down {name}", down, "engine archive (API)", docker_down))


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--big-mib", type=int, default=1024)
    options = parser.parse_args()
    rows = []
    upstream = Upstream(f"sandboxkit-bench-{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        house = House(folder, upstream.address)
        plain = Engine()
        try:
            bench_create(house, options.rounds, rows)
            sandbox = house.create()[1]["id"]
            bench_exec(house, options.rounds, rows, sandbox, plain)
            bench_files(house, options.rounds, rows, sandbox, plain, options.big_mib)
            pids = {}
            for container in house.objects("containers"):
                role = container["Labels"]["dev.sandboxkit.role"]
                pids[role] = engine("GET", f"/containers/{container['Id']}/json")[1]["State"]["Pid"]
            memory = {"controller": rss(house.controller.pid), "worker": rss(house.worker.pid),
                      "guest": rss(pids["sandbox"]), "egress": rss(pids["egress"])}
        finally:
            plain.close()
            left = house.close()
            upstream.close()
    print(f"{'ours':24} {'median ms':>10}   {'peer':26} {'median ms':>10}   ratio")
    for name, ours, peer, theirs in rows:
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{name:24} {a:10.2f}   {peer:26} {b:10.2f}   {a / b:.3f}")
    print("resident memory after the run, KiB:", ", ".join(f"{k} {v}" for k, v in memory.items()))
    assert left == [], left


if __name__ == "__main__":
    main()
