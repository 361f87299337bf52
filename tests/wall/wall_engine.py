"""The engine of the wall's tests: as on a real host, but alone in its network namespace.

It has its default bridge with addresses of both families, so that a wall has something to be tried
against, and a resolver on the host's loopback, the configuration in which engines carried the names of
internal networks out.
"""
import pathlib
import subprocess
import tempfile

from house import engine
from internet import DOCKER_6, LOOPBACK_DNS
from own_engine import REPOSITORY, OwnEngine
from spaces import run

IMAGE = "sandboxkit/base"


# Mounts of its own: the engine's files in memory, so that its disk is not what a test waits for, and a
# resolv.conf. They outlive a killed engine and end with the process that holds them.
HOLD = """
set -e
mount --bind "$1/resolv.conf" /etc/resolv.conf
mkdir "$1/data" "$1/exec"
mount -t tmpfs -o size=6g engine "$1/data"
echo ready
exec cat
"""


class WallEngine(OwnEngine):
    """Made by the thread that stands in the machine's namespace."""

    bridge = ("--ipv6", "--fixed-cidr-v6", DOCKER_6)

    def __init__(self):  # Not the parent's: namespace and upstream are the fake internet's.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sbx-engine."))
        self.socket = str(self.folder / "docker.sock")
        self.process = self.upstream = self.space = None
        # A disk that a test may fill, at one place for the engine and for a worker: mounted before they part.
        self.small = self.folder / "small"
        self.small.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=16m", "small", str(self.small))
        (self.folder / "resolv.conf").write_text(f"nameserver {LOOPBACK_DNS}\n")
        self.mounts = subprocess.Popen(["unshare", "--mount", "sh", "-c", HOLD, "sh", str(self.folder)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert self.mounts.stdout.readline() == b"ready\n"
            self.start()
            run(str(REPOSITORY / "scripts" / "build-image"), "--engine-socket", self.socket)
        except BaseException:
            self.close()
            raise

    def inside(self, *argv):
        return ["nsenter", f"--mount=/proc/{self.mounts.pid}/ns/mnt", *argv]

    def call(self, method, path, body=None):
        status, answer = engine(method, path, body, sock=self.socket)
        assert status < 300, (method, path, status, answer)
        return answer

    def close(self):
        if self.process and self.process.poll() is None:
            for container in engine("GET", "/containers/json?all=1", sock=self.socket)[1]:
                engine("DELETE", f"/containers/{container['Id']}?force=1&v=1", sock=self.socket)
        self.stop()
        self.mounts.stdin.close()
        self.mounts.wait(10)
        super().close()


class Plain:
    """A container that no wall of ours is around: shows that an attack would be seen."""

    def __init__(self, own, network="bridge", **host_config):
        self._own = own
        made = own.call("POST", "/containers/create", {
            "Image": IMAGE, "Entrypoint": ["sleep", "3600"], "Cmd": [],
            "HostConfig": {"NetworkMode": network, "Init": True, **host_config}})
        self.id = made["Id"]
        own.call("POST", f"/containers/{self.id}/start")
        self.inspected = own.call("GET", f"/containers/{self.id}/json")
        self.pid = self.inspected["State"]["Pid"]

    def run(self, command, text="", timeout=60):
        """As root with every capability, in the container's namespaces."""
        return subprocess.run(["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", *command],
                              input=text, capture_output=True, text=True, timeout=timeout, check=False)

    def close(self):
        self._own.call("DELETE", f"/containers/{self.id}?force=1&v=1")
