"""Agent mode for the tests: a controller, and a worker that is an ordinary user in its own work tree."""
import itertools
import pathlib
import shutil
import subprocess
import tempfile

from house import Daemon, House, binary, wait_for

# Each house has a user of its own, so that what runs can be told apart.
USERS = itertools.count(23456)


def processes_of(user):
    """What runs as a user, by pid with its words."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == user:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # It ended meanwhile.
    return found


class AgentHouse(House):
    def __init__(self, upstream_address, mode="prompt", worker_options=()):
        self.mode = mode
        self.user = next(USERS)
        # Where that user may go, which the folders of a test run are not.
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="sandboxkit-agent-", dir="/var/tmp"))
        self.base.chmod(0o755)
        self.home = self.base / "home"
        self.tree = self.home / "proj"
        self.outside = self.base / "outside"
        for folder in (self.home, self.tree, self.home / ".ssh", self.outside, self.base / "worker"):
            folder.mkdir()
        (self.home / ".ssh" / "id_rsa").write_text("the key\n")
        (self.tree / "a.c").write_text("int a;\n")
        subprocess.run(["git", "init", "-q", str(self.tree)], check=True)
        subprocess.run(["chown", "-R", f"{self.user}:{self.user}", *map(str, (self.home, self.outside, self.base / "worker"))],
                       check=True)
        super().__init__(self.base, upstream_address, worker_options=worker_options)
        status, made = self.api("POST", "/v1/keys", {"role": "member", "name": "the agent's"})
        assert status == 201, made
        self.agent_key = made["key"]

    def worker_argv(self, *token):
        return [binary("sandboxkit-worker"), "--controller", self.url, "--state-dir", str(self.worker_folder), *token,
                "--name", "w1", "--driver", "local", "--permission-mode", self.mode, "--work-tree", str(self.tree),
                "--home", str(self.home), "--gate-dir", str(self.gate), "--guest-binary", binary("sandboxkit-guest"),
                "--egress-binary", binary("sandboxkit-egress"),
                "--egress-host", f"packages.test={self.upstream_address}",
                "--heartbeat-interval-ms", "1000", *self.worker_options]

    def spawn_worker(self, *token, env=None):
        self.worker = Daemon(
            ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", *self.worker_argv(*token)],
            self.folder / "worker.log", {"HOME": str(self.home), **(env or {})})

    @property
    def gate(self):
        return self.worker_folder / "gate"

    def create(self, key=None, **body):
        body.setdefault("image", "local")
        return super().create(key=key or self.agent_key, **body)

    def sandbox(self, **body):
        status, made = self.create(**body)
        assert status == 201, made
        return made["id"]

    def delete(self, sandbox):
        status, answer = self.api("DELETE", f"/v1/sandboxes/{sandbox}")
        assert status in (202, 204), answer

    def run(self, sandbox, *command):
        """An allowed command's output, both streams."""
        status, answer = self.exec(sandbox, list(command), key=self.agent_key)
        assert status == 200, answer
        return answer["stdout"] + answer["stderr"]

    def put(self, sandbox, path, data):
        return self.request("PUT", f"/v1/sandboxes/{sandbox}/files?path={path}", data, key=self.agent_key)[0]

    def get(self, sandbox, path):
        status, _, data = self.request("GET", f"/v1/sandboxes/{sandbox}/files?path={path}", key=self.agent_key)
        return status, data

    def question(self, wait=30):
        status, answer = self.api("GET", f"/v1/approvals?wait={wait}")
        assert status == 200, answer
        assert answer["approvals"], "nobody asks"
        return answer["approvals"][0]

    def answer(self, question, choice, key=None):
        return self.api("POST", f"/v1/approvals/{question['id']}", {"answer": choice, "digest": question["digest"]},
                        key=key)

    def processes(self):
        return processes_of(self.user)

    def leftovers(self):
        found = [str(path) for name in ("sandboxes", "boxes", "boxes/journal")
                 for path in (self.worker_folder / name).glob("*")
                 if path.name not in ("journal", "lock") and path.suffix != ".gitignore"]
        found += [str(path) for path in self.tree.iterdir() if path.name not in (".git", "a.c", "made")]
        mine = {self.worker.pid} if self.worker else set()
        return found + [f"{pid}: {words}" for pid, words in self.processes().items() if pid not in mine]

    def close(self):
        for sandbox in self.sandboxes():
            self.delete(sandbox["id"])
        try:
            wait_for(lambda: not self.leftovers(), 20, "nothing left")
            left = []
        except AssertionError:
            left = self.leftovers()
        self.stop_daemons()
        shutil.rmtree(self.base)
        return left
