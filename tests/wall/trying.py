"""A sandbox that never stops to try every way out, and what is held while something befalls its wall."""
import contextlib
import pathlib

from house import wait_for
from internet import ALLOWED, EVIL

TRIES = f"""
while true; do
  echo try >> /tmp/tries
  timeout 1 bash -c ': < /dev/tcp/{EVIL}/80'; echo x > /dev/udp/{EVIL}/53
  curl -s -o /dev/null -m 1 http://evil.test/; curl -s -o /dev/null -m 1 --noproxy '*' http://{EVIL}/
  getent hosts leak.evil.test
done >/dev/null 2>&1
"""


def trying(house):
    """A sandbox that never stops to try."""
    made = house.sandbox(["ok.test"], profile="sudo")
    made.exec(["sh", "-c", "cat > /tmp/tries.sh"], text=TRIES)
    made.shell("setsid bash /tmp/tries.sh & until [ -s /tmp/tries ]; do :; done", user="root")
    return made


def count(sandbox):
    return int(sandbox.shell("wc -l < /tmp/tries")["stdout"])


@contextlib.contextmanager
def held(internet, sandbox, tries=2):
    """Nothing but the policy's own leaves until it has been tried a few times more."""
    with internet.only((ALLOWED, 80), names=["ok.test"]) as seen:
        yield seen
        begin = count(sandbox)
        wait_for(lambda: count(sandbox) >= begin + tries, 60, "more tries")
    assert internet.machine_dns.queries == []


def proxy_pid(sandbox):
    container = sandbox.container("egress")
    if container:
        return container["State"]["Pid"]
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode().split("\0")
            if words[0].endswith("sandboxkit-egress") and any(sandbox.id in word for word in words):
                return int(path.parent.name)
    return 0


def passes(sandbox):
    return sandbox.shell("curl -sS -m 10 http://ok.test/")["stdout"] == f"reached {ALLOWED}\n"
