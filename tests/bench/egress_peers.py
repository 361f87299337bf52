#!/usr/bin/env python3
"""Our egress proxy beside squid, tinyproxy and no proxy at all, in one run: figures and ratios.

    tests/bench/egress_peers.py BUILD_DIR [--seconds S] [--rounds N]

BUILD_DIR is an optimized build (`-Dbuildtype=release`) of `daemons/egress/sandboxkit-egress` and
`tests/bench/egress_load`. Needs root: the proxies and the upstream stand in two network namespaces
of their own, joined by a pair of interfaces, because ours refuses to dial its own machine. All are
measured in turn within each round, and the best round of each counts: a machine that is busy with
other things slows one side of a ratio. A peer that is not installed is named as missing.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

UP, HERE = "10.250.77.2", "10.250.77.1"
TICK = os.sysconf("SC_CLK_TCK")
MODES = [  # name, mode of egress_load, connections
    ("plain keep-alive, 32 connections, requests/s", "keep", 32),
    ("plain, new connection each, 16, requests/s", "new", 16),
    ("CONNECT + GET + close, 16, per second", "connect", 16),
    ("GETs in kept tunnels, 32, requests/s", "kept", 32),
    ("new tunnel and GET, 1 connection, per second", "connect", 1),
    ("one download through CONNECT, MB/s", "bulk", 1),
]


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Namespaces:
    """Two namespaces: the upstream's, and that of one proxy and its load.

    Each proxy gets a new pair: what one leaves behind (tens of thousands of closed connections that
    wait out their minute) makes the kernel's search for a free port slow for whoever comes next.
    """

    made = 0

    def __enter__(self):
        Namespaces.made += 1
        unique = f"{os.getpid()}-{Namespaces.made}"
        self.up, self.here = f"sbxbench-u{unique}", f"sbxbench-p{unique}"
        for name in (self.up, self.here):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.here, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
            "netns", self.up)
        for name, address in ((self.here, HERE), (self.up, UP)):
            run("ip", "-n", name, "address", "add", f"{address}/30", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000")
        return self

    def __exit__(self, *_):
        for name in (self.up, self.here):
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def start(self, name, command, **options):
        # `ip netns exec` becomes the program, so the process is the one that is measured.
        return subprocess.Popen(["ip", "netns", "exec", name, *command], **options)


def ours(folder, port, up_port, build):
    policy = {"listen": f"127.0.0.1:{port}", "allowed_domains": [f"up.test:{up_port}"],
              "allowed_networks": [f"{UP}/32:{up_port}"], "hosts": {"up.test": UP},
              "policy_hash": "bench", "max_connections": 4096, "max_upstreams": 4096}
    (folder / "policy.json").write_text(json.dumps(policy))
    return [f"{build}/daemons/egress/sandboxkit-egress", "--config-dir", str(folder)]


def squid(folder, port, up_port, _):
    (folder / "squid.conf").write_text(f"""
http_port 127.0.0.1:{port}
acl upstream port {up_port}
http_access allow upstream
http_access deny all
cache deny all
cache_mem 8 MB
access_log none
cache_store_log none
cache_log {folder}/cache.log
pid_filename none
netdb_filename none
pinger_enable off
coredump_dir {folder}
max_filedescriptors 8192
shutdown_lifetime 0 seconds
""")
    return ["squid", "-N", "-f", str(folder / "squid.conf")]


def tinyproxy(folder, port, up_port, _):
    (folder / "tinyproxy.conf").write_text(f"""
Port {port}
Listen 127.0.0.1
Timeout 600
LogLevel Critical
LogFile "{folder}/tinyproxy.log"
MaxClients 2000
Allow 127.0.0.1
ConnectPort {up_port}
""")
    return ["tinyproxy", "-d", "-c", str(folder / "tinyproxy.conf")]


PROXIES = {"ours": (ours, "up.test"), "squid": (squid, UP), "tinyproxy": (tinyproxy, UP)}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


class Bench:
    def __init__(self, build, seconds):
        self.build, self.seconds = build, seconds
        self.load = f"{build}/tests/bench/egress_load"
        self.results = {}

    def keep(self, proxy, name, value, better=max):
        row = self.results.setdefault(name, {})
        row[proxy] = value if proxy not in row else better(row[proxy], value)

    def measure(self, spaces, proxy, where, authority, pid):
        for name, mode, count in MODES:
            before = cpu_seconds(pid) if pid else 0
            done = subprocess.run(
                ["ip", "netns", "exec", spaces.here, self.load, mode, where, authority,
                 str(count), str(self.seconds)], capture_output=True, text=True, timeout=120)
            if done.returncode != 0:
                print(f"{proxy}: {name}: failed: {done.stderr.strip()[:200]}")
                continue
            figures = json.loads(done.stdout)
            cpu = cpu_seconds(pid) - before if pid else 0
            self.keep(proxy, name, figures["mb_per_second" if mode == "bulk" else "per_second"])
            if pid and mode == "bulk" and figures["bytes"]:
                self.keep(proxy, "- CPU s/GB", cpu / (figures["bytes"] / 1e9), min)
            elif pid and figures["done"]:
                self.keep(proxy, f"- CPU us each ({name})", cpu / figures["done"] * 1e6, min)
            if count == 1 and mode == "connect":
                self.keep(proxy, "- p50 us", figures["p50_us"], min)

    def hold(self, spaces, proxy, where, authority, pid):
        self.keep(proxy, "RSS idle, MB", rss_mb(pid), min)
        before = cpu_seconds(pid)
        with spaces.start(spaces.here,
                          [self.load, "hold", where, authority, "1000", "0"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            line = load.stdout.readline()
            if not line:
                print(f"{proxy}: 1,000 tunnels could not be opened")
                return
            self.keep(proxy, "CPU us to open a tunnel", (cpu_seconds(pid) - before) * 1e3, min)
            self.keep(proxy, "RSS with 1,000 idle tunnels, MB", rss_mb(pid), min)
            self.keep(proxy, "new tunnel alone, p50 us", json.loads(line)["p50_us"], min)
            load.stdin.write("\n")
            load.stdin.close()

    def one(self, spaces, proxy, make, authority, up_port, build):
        port = 3128
        with tempfile.TemporaryDirectory(prefix="sbxbench-") as text:
            folder = pathlib.Path(text)
            folder.chmod(0o777)
            process = spaces.start(spaces.here, make(folder, port, up_port, build),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.wait_for(spaces, port, process)
                where, target = f"127.0.0.1:{port}", f"{authority}:{up_port}"
                self.hold(spaces, proxy, where, target, process.pid)
                self.measure(spaces, proxy, where, target, process.pid)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def round_of(self, proxy):
        """All of one proxy's figures, between namespaces and an upstream of its own."""
        with Namespaces() as spaces, spaces.start(
                spaces.up, [self.load, "upstream", UP], stdout=subprocess.PIPE, text=True) as upstream:
            try:
                up_port = int(upstream.stdout.readline())
                if proxy == "direct":
                    self.measure(spaces, proxy, "direct", f"{UP}:{up_port}", None)
                else:
                    make, authority = PROXIES[proxy]
                    self.one(spaces, proxy, make, authority, up_port, self.build)
            finally:
                upstream.kill()

    def wait_for(self, spaces, port, process):
        probe = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        deadline = time.monotonic() + 20
        while subprocess.run(["ip", "netns", "exec", spaces.here, sys.executable, "-c", probe],
                             stderr=subprocess.DEVNULL).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{process.args[4:]} does not serve")

    def show(self, names):
        print(f"{'':58}" + "".join(f"{name:>12}" for name in names) + "   ours/best peer  ours/direct")
        for name, row in self.results.items():
            cells = "".join(f"{row[n]:12.2f}" if n in row else f"{'-':>12}" for n in names)
            peers = [row[n] for n in ("squid", "tinyproxy") if n in row]
            cost = name.startswith("-") or "RSS" in name or "CPU" in name or "p50" in name
            best = (min if cost else max)(peers) if peers else None
            ratio = f"{row['ours'] / best:12.2f}" if best and "ours" in row else f"{'-':>12}"
            direct = f"{row['ours'] / row['direct']:12.2f}" if row.get("direct") and "ours" in row else ""
            print(f"{name:58}{cells}   {ratio}  {direct}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    names = ["direct"]
    for name in PROXIES:
        if name == "ours" or shutil.which(name):
            names.append(name)
        else:
            print(f"missing: {name} is not installed, so nothing is compared with it")
    bench = Bench(options.build, options.seconds)
    for _ in range(options.rounds):
        for name in names:
            bench.round_of(name)
    bench.show(names)


if __name__ == "__main__":
    main()
