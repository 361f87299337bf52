"""A deployment behind the wall's engine, and sandboxes to attack from."""
import base64
import itertools
import json
import os

from house import House, IMAGE, wait_for
from internet import ALLOWED, DNS

# Each worker has a block of its own: they share the engine.
POOLS = itertools.count(240)


class WallHouse(House):
    def __init__(self, folder, own, structure, worker_options=(), worker_folder=None, controller_options=()):
        self.own = own
        self.structure = structure
        self.worker_folder = worker_folder
        # On request each sandbox on a network stands in a wall that was made before it was ordered.
        self.wall_pool = int(os.environ.get("SANDBOXKIT_WALL_POOL", "0")) if structure == "internal-net" else 2
        super().__init__(folder, ALLOWED, engine_socket=own.socket, worker_options=[
            "--dns", DNS, "--subnet-pool", f"10.{next(POOLS)}.0.0/16", *worker_options],
            controller_options=controller_options)

    def waiting_walls(self):
        """The walls that are whole and wait for a sandbox: each with its proxy on both networks."""
        taken = {c["Labels"].get("dev.sandboxkit.wall") for c in self.objects("containers")
                 if c["Labels"].get("dev.sandboxkit.sandbox")}
        return {c["Labels"]["dev.sandboxkit.wall"] for c in self.objects("containers")
                if "dev.sandboxkit.wall" in c["Labels"] and c["Labels"]["dev.sandboxkit.role"] == "egress"
                and len(c["NetworkSettings"]["Networks"]) == 2} - taken

    def sandbox(self, domains=(), networks=(), walled=True, image=IMAGE, **more):
        policy = {"allowed_domains": list(domains)}
        waits = walled and self.structure == "internal-net" and self.wall_pool > 0
        if waits:
            wait_for(self.waiting_walls, 120, "a wall that waits")
        if networks:
            policy["allowed_networks"] = list(networks)
        status, made = self.create(egress=policy if walled else None, image=image, **more)
        assert status == 201, made
        created = Sandbox(self, made)
        if waits:
            assert "dev.sandboxkit.wall" in created.container()["Config"]["Labels"], "it is not in a wall that waited"
        return created

    def container(self, sandbox, role="sandbox"):
        """The engine's own description of a sandbox's container, with the ends of the namespace that it is in."""
        containers = self.objects("containers")
        wall = next((c["Labels"].get("dev.sandboxkit.wall") for c in containers
                     if c["Labels"].get("dev.sandboxkit.sandbox") == sandbox), None)
        for each in containers:
            labels = each["Labels"]
            whose = labels.get("dev.sandboxkit.sandbox") == sandbox or (
                wall is not None and labels.get("dev.sandboxkit.wall") == wall)
            if whose and labels["dev.sandboxkit.role"] == role:
                about = self.own.call("GET", f"/containers/{each['Id']}/json")
                joined = about["HostConfig"]["NetworkMode"].partition("container:")[2]
                if joined and self.structure == "internal-net":
                    about["NetworkSettings"] = self.own.call("GET", f"/containers/{joined}/json")["NetworkSettings"]
                return about
        return None


class Sandbox:
    def __init__(self, house, made):
        self.house = house
        self.id = made["id"]
        self.made = made

    def exec(self, command, text="", timeout=60, **more):
        """The whole answer of a command: exit_code, stdout, stderr."""
        status, done = self.house.exec(self.id, command, timeout_seconds=timeout,
                                       stdin_base64=base64.b64encode(text.encode()).decode(), **more)
        assert status == 200, done
        return done

    def shell(self, script, **more):
        return self.exec(["bash", "-c", script], **more)

    def python(self, program, *args, **more):
        """Runs a program of the attacker and gives what it printed, as JSON."""
        done = self.exec(["python3", "-", *map(str, args)], text=program, **more)
        assert done["exit_code"] == 0, done
        return json.loads(done["stdout"])

    def proxy(self):
        """Address and port of its proxy, as its own environment tells."""
        done = self.shell('printf %s "${HTTP_PROXY#http://}"')
        address, port = done["stdout"].rstrip("/").rsplit(":", 1)
        return address, int(port)

    def container(self, role="sandbox"):
        return self.house.container(self.id, role)

    @property
    def pid(self):
        return self.container()["State"]["Pid"]

    def state(self):
        return self.house.api("GET", f"/v1/sandboxes/{self.id}")[1]

    def denied(self):
        status, answer = self.house.api("GET", f"/v1/sandboxes/{self.id}/egress/denied")
        assert status == 200, answer
        return answer["denied"]

    def delete(self):
        self.house.api("DELETE", f"/v1/sandboxes/{self.id}")


ASK = """
import json, os, socket, sys, threading
host, port = os.environ["HTTP_PROXY"].removeprefix("http://").rstrip("/").rsplit(":", 1)
requests = json.load(open("/dev/shm/requests"))
answers = [None] * len(requests)
def ask(i):
    answer = b""
    try:
        with socket.create_connection((host, int(port)), 20) as s:
            s.settimeout(15)
            s.sendall(requests[i].encode("latin-1"))
            while len(answer) < 65536 and (more := s.recv(65536)):
                answer += more
                if b"\\r\\n\\r\\n" in answer and requests[i].startswith("CONNECT"):
                    break
    except OSError as problem:
        answer = answer or type(problem).__name__.encode()
    answers[i] = answer.decode("latin-1")
for begin in range(0, len(requests), 24):
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(begin, min(begin + 24, len(requests)))]
    [t.start() for t in threads]
    [t.join() for t in threads]
print(json.dumps(answers))
"""


def status_and_reason(answer):
    """`403 not_in_allow_list` of a raw answer of the proxy."""
    status = answer.split(" ")[1] if answer.startswith("HTTP/1.1 ") else answer
    reason = answer.partition("X-Sandboxkit-Egress: denied; reason=")[2].split("\r\n")[0]
    return f"{status} {reason}".strip()


def ask_proxy(sandbox, requests):
    """Raw answers of the sandbox's proxy to raw requests, each on a connection of its own."""
    sandbox.exec(["sh", "-c", "cat > /dev/shm/requests"], text=json.dumps(requests))
    return sandbox.python(ASK, timeout=120)


def get(url):
    return f"GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def connect(authority):
    return f"CONNECT {authority} HTTP/1.1\r\nHost: x\r\n\r\n"
