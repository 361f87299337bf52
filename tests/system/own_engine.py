"""A Docker Engine of the tests' own, which they may kill, beside the one that everybody uses.

It has a folder and a network namespace of its own: two engines in one namespace would take each
other's filter rules for leftovers and remove them.
"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from house import engine, wait_for

ADDRESS = "10.230.254.1"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)


def enter_network(descriptor):
    """Moves the calling thread, and with it what it starts from now on."""
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns: the tests with an engine of their own need root")


def end_shims(folder):
    """A container that ended while its engine was dead leaves its shim, which nobody calls any more."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode().split("\0")
            if words[0].endswith("containerd-shim-runc-v2") and any(
                    word.startswith(f"{folder}/exec/") for word in words):
                os.kill(int(path.parent.name), signal.SIGKILL)


class OwnEngine:
    bridge = ("--bridge", "none")

    def __init__(self):
        # Short: the path of a socket has about a hundred bytes.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sbx-engine."))
        self.socket = str(self.folder / "docker.sock")
        self.space = f"sandboxkit-test-{os.getpid()}"
        self.process = self.upstream = None
        try:
            run("ip", "netns", "add", self.space)
            run(*self.inside("ip", "link", "set", "lo", "up"))
            # The "internet" of this engine: one address with one host that listens.
            run(*self.inside("ip", "link", "add", "upstream", "type", "bridge"))
            run(*self.inside("ip", "address", "add", f"{ADDRESS}/24", "dev", "upstream"))
            run(*self.inside("ip", "link", "set", "upstream", "up"))
            site = self.folder / "site"
            site.mkdir()
            (site / "index.html").write_text("hello from upstream\n")
            self.upstream_log = self.folder / "upstream.log"
            with open(self.upstream_log, "ab") as log:
                self.upstream = subprocess.Popen(
                    self.inside("/usr/bin/python3", "-u", "-m", "http.server", "80", "--bind", ADDRESS,
                                "--directory", str(site)), stdout=log, stderr=log)
            self.start()
            run(str(REPOSITORY / "scripts" / "build-image"), "--engine-socket", self.socket)
        except BaseException:
            self.close()
            raise

    def inside(self, *argv):
        return ["nsenter", f"--net=/run/netns/{self.space}", *argv]

    @contextlib.contextmanager
    def entered(self):
        """The calling thread stands in the engine's namespace, as a worker on the engine's machine does."""
        with open("/proc/thread-self/ns/net", "rb") as before, open(f"/run/netns/{self.space}", "rb") as its:
            enter_network(its.fileno())
            try:
                yield self
            finally:
                enter_network(before.fileno())

    def start(self, *options):
        with open(self.folder / "dockerd.log", "ab") as log:
            self.process = subprocess.Popen(
                self.inside("dockerd", "--host", f"unix://{self.socket}", *self.bridge,
                            "--data-root", str(self.folder / "data"),
                            "--exec-root", str(self.folder / "exec"),
                            "--pidfile", str(self.folder / "dockerd.pid"), *options),
                stdout=log, stderr=log)

        def answers():
            assert self.process.poll() is None, (self.folder / "dockerd.log").read_text()[-3000:]
            try:
                return engine("GET", "/_ping", sock=self.socket)[0] == 200
            except OSError:
                return False
        wait_for(answers, 90, "the engine's answer")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.wait_dead()

    def wait_dead(self):
        """Its containerd dies with it, a little later: a new dockerd would take it for a live one."""
        self.process.wait(60)
        containerd = (self.folder / "exec" / "containerd" / "containerd.pid").read_text()
        wait_for(lambda: not pathlib.Path(f"/proc/{containerd.strip()}").exists(), 30,
                 "the end of containerd")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def reached(self):
        """The paths that somebody asked the upstream for."""
        return [line.split('"')[1].split(" ")[1] for line in self.upstream_log.read_text().splitlines()
                if '"GET ' in line]

    def close(self):
        self.stop()
        end_shims(self.folder)
        if self.upstream:
            self.upstream.kill()
            self.upstream.wait(10)
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            below = [line.split(" ")[1] for line in mounts if f" {self.folder}/" in line]
        for mount in sorted(below, reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)
        if self.space:
            subprocess.run(["ip", "netns", "delete", self.space], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
