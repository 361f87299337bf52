#!/usr/bin/env python3
"""The same inputs to our egress proxy, to squid and to tinyproxy: who answers what, and what got out.

Usage: egress_peers.py [--build FOLDER] [--only TEXT] [--proxy NAME] [--markdown]

Needs root. Everything happens in two network namespaces that the script makes and removes: one with
the proxies, one with the upstreams and the name server (peers_world.py); nothing leaves the machine.
What got out is told by the upstreams' and the name server's own record, not by what a client sees.
Peers that are not installed (Debian: squid, tinyproxy) are left out, and the table says so.

Exit: 0 when ours gave every right answer, 1 when not, 2 when it could not be tried.
"""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from peers_inputs import ALL, ALL_STRICT, NAMES, get
from peers_world import EVIL, HOST, OK, OWN, PTR, WILD

NAMESERVER = "93.184.216.53"
OUTSIDE = [NAMESERVER, OK, WILD, EVIL, PTR, HOST, "169.254.169.254", "10.0.0.5"]
INSIDE = ["127.0.0.1", OWN]
PROXY_PORTS = {"ours": 3128, "squid": 3129, "tinyproxy": 3130, "ours, strict": 3131}
DOMAINS = ["ok.test", "*.w.test"]
SQUID = """http_port 127.0.0.1:{port}
acl allowed dstdomain ok.test .w.test
acl safe_port port 80 443
acl tls_port port 443
acl tunnel method CONNECT
http_access deny !safe_port
http_access deny tunnel !tls_port
http_access allow allowed
http_access deny all
dns_nameservers {dns}
hosts_file none
cache deny all
access_log none
cache_log {folder}/cache.log
cache_store_log none
pid_filename none
coredump_dir {folder}
shutdown_lifetime 0 seconds
visible_hostname squid.test
pinger_enable off
server_persistent_connections off
"""
TINYPROXY = """Port {port}
Listen 127.0.0.1
Timeout 15
MaxClients 100
LogLevel Critical
LogFile "{folder}/tinyproxy.log"
Filter "{folder}/filter"
FilterExtended On
FilterDefaultDeny Yes
ConnectPort 443
"""


class World:
    """One of the two sides: its process, and what it wrote down."""

    def __init__(self, space, names, hosts):
        self.events, self.news = [], threading.Condition()
        script = pathlib.Path(__file__).with_name("peers_world.py")
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{space}", sys.executable, "-u", str(script), names, *hosts],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()
        self.wait_for(lambda event: event.get("ready"))

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.events.append(json.loads(line))
                self.news.notify_all()

    def wait_for(self, wanted, since=0):
        with self.news:
            if not self.news.wait_for(lambda: any(map(wanted, self.events[since:])), 20):
                raise TimeoutError("the upstreams do not answer")

    def sync(self):
        """Until all that has reached this side is written down."""
        since = len(self.events)
        self.process.stdin.write(f"after {since}\n")
        self.process.stdin.flush()
        self.wait_for(lambda event: "mark" in event, since)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def run(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def inside(space, *argv):
    return ["nsenter", f"--net=/run/netns/{space}", *argv]


def make_spaces(near, far):
    for space in (near, far):
        run("ip", "netns", "add", space)
        run(*inside(space, "ip", "link", "set", "lo", "up"))
    run("ip", "link", "add", "proxies", "netns", near, "type", "veth", "peer", "name", "world", "netns", far)
    run(*inside(near, "ip", "address", "add", f"{OWN}/24", "dev", "proxies"))
    run(*inside(near, "ip", "link", "set", "proxies", "up"))
    run(*inside(far, "ip", "address", "add", "10.77.0.2/24", "dev", "world"))
    run(*inside(far, "ip", "link", "set", "world", "up"))
    for address in OUTSIDE:
        run(*inside(far, "ip", "address", "add", f"{address}/32", "dev", "lo"))
    run(*inside(near, "ip", "route", "add", "default", "via", "10.77.0.2"))


def commands(folder, build):
    """What to run for each proxy that is there."""
    found = {}
    for name, strict in (("ours", False), ("ours, strict", True)):
        policy = {"listen": f"127.0.0.1:{PROXY_PORTS[name]}", "allowed_domains": DOMAINS, "strict_tls": strict,
                  "dns_servers": [NAMESERVER], "refused_networks": [f"{HOST}/32"], "policy_hash": "ab"}
        (folder / name).mkdir()
        (folder / name / "policy.json").write_text(json.dumps(policy))
        found[name] = [str(build / "daemons/egress/sandboxkit-egress"), "--config-dir", str(folder / name)]
    if shutil.which("squid"):
        (folder / "squid.conf").write_text(
            SQUID.format(port=PROXY_PORTS["squid"], dns=NAMESERVER, folder=folder))
        found["squid"] = ["squid", "-N", "-f", str(folder / "squid.conf")]
    if shutil.which("tinyproxy"):
        (folder / "filter").write_text("^ok\\.test$\n\\.w\\.test$\n")
        (folder / "resolv.conf").write_text(f"nameserver {NAMESERVER}\noptions timeout:2 attempts:1\n")
        (folder / "tinyproxy.conf").write_text(TINYPROXY.format(port=PROXY_PORTS["tinyproxy"], folder=folder))
        # It asks the C library, which reads this one file; nobody else sees it.
        found["tinyproxy"] = ["unshare", "--mount", "sh", "-c",
                              f"mount --bind {folder}/resolv.conf /etc/resolv.conf && "
                              f"exec tinyproxy -d -c {folder}/tinyproxy.conf"]
    return found


def dial(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def wait_for_port(port, process):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            return dial(port).close()
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


def answers_in(data):
    """The statuses of the whole answers in `data`, and whether an end is still to come."""
    statuses = []
    while data:
        if b"\r\n\r\n" not in data:
            return statuses, True
        head, rest = data.split(b"\r\n\r\n", 1)
        words = head.split(b"\r\n")[0].split(b" ")
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else -1
        fields = head.lower()
        if 100 <= status < 200 and status != 101:
            data = rest
            continue
        statuses.append(status)
        size = 0
        if b"chunked" in fields:
            if b"0\r\n\r\n" not in rest:
                return statuses, True
            size = rest.index(b"0\r\n\r\n") + 5
        for line in fields.split(b"\r\n"):
            if line.startswith(b"content-length:") and status not in (204, 304):
                size = int(line.split(b":")[1])
        data = rest[size:]
        if status == 200 and b"content-length" not in fields and b"chunked" not in fields:
            return statuses, False  # A tunnel, or a body that ends with the connection.
    return statuses, False


def ask(port, case):
    """Sends the pieces; returns statuses, all that came, and whether the proxy ended it. A status of 0:
    closed without an answer; -2: neither an answer nor an end."""
    received, end, statuses = b"", time.monotonic() + case.seconds, []
    wanted = len(case.status)
    with dial(port) as client:
        for i, piece in enumerate(case.sends):
            before = len(received)
            try:
                client.sendall(piece)
            except OSError:
                pass  # Refused in the middle: the answer may be there all the same.
            last = i + 1 == len(case.sends)
            while True:
                statuses, partial = answers_in(received)
                enough = len(statuses) >= (wanted if last else min(i + 1, wanted)) and not partial
                heard = all(text in received for text in case.gets) or not last or statuses[:1] != [200]
                if enough and heard and len(received) > before and not (last and case.closes):
                    break
                client.settimeout(max(0.01, end - time.monotonic()))
                try:
                    data = client.recv(65536)
                except TimeoutError:
                    return statuses + ([-2] if len(statuses) < wanted else []), received, False
                except OSError:
                    data = b""
                if not data:
                    statuses, _ = answers_in(received)
                    return statuses or [0], received, True
                received += data
    return statuses, received, False


class Trial:
    def __init__(self, near, far):
        self.near, self.far, self.count = near, far, 0

    def barrier(self, port):
        """An allowed request behind the input: what comes before it at the upstreams is the input's."""
        self.count += 1
        mark = f"/barrier-{self.count}"
        since = len(self.far.events)
        with dial(port) as client:
            client.settimeout(10)
            client.sendall(get(f"http://barrier.w.test{mark}", "Connection: close\r\n", host="barrier.w.test"))
            data = b"x"
            while data:
                data = client.recv(65536)
        self.far.wait_for(lambda event: mark in event.get("data", ""), since)
        self.far.sync()
        self.near.sync()

    def run(self, port, case):
        marks = len(self.near.events), len(self.far.events)
        statuses, received, ended = ask(port, case)
        self.barrier(port)
        events = [(side, event) for side, world, mark in (("far", self.far, marks[1]), ("near", self.near, marks[0]))
                  for event in world.events[mark:]]
        # A connection that carried the barrier and nothing else is the barrier's.
        barriers = {(side, event["connection"]) for side, event in events if "/barrier-" in event.get("data", "")}
        used = {(side, event["connection"]) for side, event in events
                if "data" in event and "/barrier-" not in event["data"]}
        reached, data, names = [], "", []
        for side, event in events:
            if "mark" in event:
                continue
            if "dns" in event:
                if event["dns"] != "barrier.w.test":
                    names.append((event["dns"], event["kind"]))
            elif (side, event["connection"]) in barriers - used or "/barrier-" in event.get("data", ""):
                continue
            elif "open" in event:
                reached.append(event["open"])
            else:
                reached.append(event["at"])  # A connection that was kept is reached by its bytes.
                data += event["data"]
        return Outcome(case, statuses, received, ended, tuple(dict.fromkeys(reached)), data.encode("latin-1"), names)


class Outcome:
    def __init__(self, case, statuses, received, ended, opens, data, names):
        self.case, self.statuses, self.received, self.ended = case, statuses, received, ended
        self.opens, self.data, self.names = opens, data, names

    def wrong(self):
        """Why this is not the right answer; empty when it is."""
        case, out = self.case, []
        first_is_right = bool(self.statuses) and self.statuses[0] in (case.status[0], *case.also)
        if not first_is_right or (len(case.status) > 1 and tuple(self.statuses) != case.status):
            out.append(f"answered {self.statuses}")
        reached = self.opens
        if case.reaches is not None and reached != case.reaches and not (
                first_is_right and self.statuses[0] in case.also):
            out.append(f"reached {reached}")
        out += [f"upstream did not get {text!r}" for text in case.has if text not in self.data]
        out += [f"upstream got {text!r}" for text in case.lacks if text in self.data]
        out += [f"client did not get {text!r}" for text in case.gets if text not in self.received]
        out += [f"client got {text!r}" for text in case.spared if text in self.received]
        if case.closes and not self.ended:
            out.append("was not ended")
        leaked = [name for name, _ in self.names if name not in case.dns]
        out += [f"asked DNS for {name}" for name in dict.fromkeys(leaked)]
        queries = sum(kind == "A" for _, kind in self.names)
        if queries > case.dns_most:
            out.append(f"{queries} A queries")
        return "; ".join(out)

    def mark(self):
        """Nothing when it is right, `!` when something gets out or is let through that must not, or the
        client hangs, and `~` when it answers otherwise, which harms nobody but whoever asked."""
        if not self.wrong():
            return ""
        case = self.case
        harm = (any(name not in case.dns for name, _ in self.names)
                or (case.reaches is not None and not set(self.opens) <= set(case.reaches))
                or any(text in self.data for text in case.lacks) or any(text in self.received for text in case.spared)
                or -2 in self.statuses or (case.closes and not self.ended)
                or any(0 < got < 400 <= right for got, right in zip(self.statuses, case.status)))
        return "!" if harm else "~"

    def brief(self):
        words = {-2: "no answer", 0: "closed", -1: "no HTTP"}
        text = ", ".join(words.get(status, str(status)) for status in self.statuses)
        text += ", closed" if self.case.closes and self.ended and self.statuses != [0] else ""
        for where in self.opens:
            host, port = where.rsplit(":", 1)
            text += f" →{NAMES.get(host, host)}:{port}"
        leaked = [name for name, _ in self.names if name not in self.case.dns]
        if leaked:
            text += f" DNS:{leaked[0][:24]}"
        passed = [t for t in self.case.lacks if t in self.data]
        if passed and self.opens:
            text += " passes " + ascii(passed[0].decode("latin-1"))[1:-1].strip()[:16]
        return text


def right_answer(case):
    text = ", ".join("/".join(map(str, dict.fromkeys((status, *(case.also if i == 0 else ())))))
                     for i, status in enumerate(case.status))
    text = text.replace("0", "closed") if text == "0" else text
    text += ", closed" if case.closes else ""
    for where in dict.fromkeys(case.reaches or ()):
        host, port = where.rsplit(":", 1)
        text += f" →{NAMES.get(host, host)}:{port}"
    return text


def print_table(rows, proxies):
    for part, cases in rows:
        if not cases:
            continue
        print(f"\n{part}\n    #  {'input':<54} {'right':<22} " + " ".join(f"{name:<36}" for name in proxies))
        for case, outcomes in cases:
            cells = [f"{outcomes[name].mark():1} {outcomes[name].brief()}".strip() for name in proxies]
            print(f"  {case.number:>3}  {case.what:<54} {right_answer(case):<22} " +
                  " ".join(f"{cell:<36}" for cell in cells))


def print_summary(rows, proxies):
    """One line for each number, as a table for a page: how many are right, and which are wrong."""
    print("| # | inputs | " + " | ".join(proxies) + " |")
    print("|" + "---|" * (len(proxies) + 2))
    groups = {}
    for _, cases in rows:
        for case, outcomes in cases:
            groups.setdefault(case.number, []).append((case, outcomes))
    for number, found in sorted(groups.items(), key=lambda item: (not item[0].isdigit(), item[0].zfill(3))):
        cells = []
        for name in proxies:
            marks = [(outcomes[name].mark(), case.what) for case, outcomes in found]
            wrong = [what for mark, what in marks if mark == "!"]
            text = f"{sum(mark == '' for mark, _ in marks)} right"
            other = sum(mark == "~" for mark, _ in marks)
            text += f", {other} otherwise" if other else ""
            if wrong:
                shown = ", ".join(wrong[:3]) + (", …" if len(wrong) > 3 else "")
                text += f", **{len(wrong)} wrong**: {shown}"
            cells.append(text.replace("|", "\\|"))
        print(f"| {number} | {len(found)} | " + " | ".join(cells) + " |")


def enter(space):
    """From here on this process is where the sandbox would be."""
    with open(f"/run/netns/{space}", encoding="utf-8") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def try_one(name, argv, spaces, folder, cases):
    """What one proxy does with all cases; alone, so that every query and connection is its own."""
    worlds, process = [], None
    try:
        worlds = [World(spaces[0], "-", INSIDE), World(spaces[1], "names", OUTSIDE)]
        with open(folder / f"{name}.out", "wb") as out:
            process = subprocess.Popen(argv, stdout=out, stderr=out)
        wait_for_port(PROXY_PORTS[name], process)
        trial = Trial(*worlds)
        trial.barrier(PROXY_PORTS[name])  # Whatever a proxy asks for at its first request is no input's.
        return [trial.run(PROXY_PORTS[name], case) for case in cases]
    finally:
        if process:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        for world in worlds:
            world.close()


def try_some(parts, proxies, spaces, folder, options):
    """The table of some inputs, and how many of each proxy are right; returns what ours got wrong."""
    parts = [(part, [case for case in cases if options.only in f"{case.number} {case.what}"]) for part, cases in parts]
    cases = [case for _, chosen in parts for case in chosen]
    found = {name: try_one(name, argv, spaces, folder, cases) for name, argv in proxies.items()}
    at, rows = 0, []
    for part, chosen in parts:
        rows.append((part, [(case, {name: outcomes[at + i] for name, outcomes in found.items()})
                            for i, case in enumerate(chosen)]))
        at += len(chosen)
    (print_summary if options.markdown else print_table)(rows, list(found))
    print()
    for name, outcomes in found.items():
        marks = [outcome.mark() for outcome in outcomes]
        print(f"{name}: {marks.count('')} of {len(marks)} right, {marks.count('~')} answered otherwise, "
              f"{marks.count('!')} wrong")
    return [outcome for name, outcomes in found.items() if name.startswith("ours") for outcome in outcomes
            if outcome.wrong()]


def try_all(spaces, folder, build, options):
    enter(spaces[0])
    known = {name: argv for name, argv in commands(folder, build).items() if options.proxy in ("", name)}
    strict = {name: argv for name, argv in known.items() if name == "ours, strict"}
    wrong = []
    for parts, proxies in ((ALL, {name: argv for name, argv in known.items() if name not in strict}), (ALL_STRICT, strict)):
        if proxies:
            wrong += try_some(parts, proxies, spaces, folder, options)
    for name in PROXY_PORTS:
        if name not in known:
            print(f"{name}: not installed or not asked for, not tried")
    for outcome in wrong:
        print(f"OURS IS WRONG: {outcome.case.number} {outcome.case.what}: {outcome.wrong()}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--build", type=pathlib.Path, default=repository / "build-test")
    parser.add_argument("--only", default="", help="inputs whose number or words contain this")
    parser.add_argument("--proxy", default="", help="only this one: ours, squid, tinyproxy or `ours, strict`")
    parser.add_argument("--markdown", action="store_true", help="one line for each number, as a table for a page")
    options = parser.parse_args()
    if os.geteuid() != 0 or not (options.build / "daemons/egress/sandboxkit-egress").exists():
        print("needs root and a build (--build FOLDER)", file=sys.stderr)
        return 2
    near, far = (f"sandboxkit-peers-{os.getpid()}-{side}" for side in ("near", "far"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sbx-peers."))
    folder.chmod(0o777)  # squid and tinyproxy leave root
    try:
        make_spaces(near, far)
        return try_all((near, far), folder, options.build.resolve(), options)
    finally:
        for space in (near, far):
            subprocess.run(["ip", "netns", "delete", space], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
