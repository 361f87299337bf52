"""The kernel under a sandbox: what is no network at all and still leads out, or into the proxy's seat.

Vsock, which is on no list of attacks, is the plain case: where the worker is a virtual machine it reaches the
hypervisor's services past every wall. Nothing here ever connects to that: that such a socket cannot be had is
what is tested.
"""
import json

import pytest

FAMILIES = """
import ctypes, errno, json, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 4
found = {}
for family in range(1, 64):
    for high in (0, 1 << 32, 1 << 63):  # The kernel takes the lower half alone.
        for kind in range(1, 7):
            number = ctypes.c_long((family | high) - (1 << 64 if high == 1 << 63 else 0)).value
            if libc.syscall(41, number, kind, 0) >= 0:
                found[family] = "open"
            else:
                found.setdefault(family, errno.errorcode[ctypes.get_errno()])
print(json.dumps(found))
"""
PID_ONE = """
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    got = libc.syscall(number, *map(ctypes.c_long, arguments))
    return got if got >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as problem:
        return errno.errorcode[problem.errno]
one = call(434, 1, 0)  # pidfd_open
told = {"fd theft": [call(438, one, fd, 0) for fd in range(3, 16)], "attach": call(101, 16, 1, 0, 0),
        "seize": call(101, 0x4206, 1, 0, 0),
        "memory": attempt(open, "/proc/1/mem", "rb"), "environment": attempt(open, "/proc/1/environ", "rb"),
        "executable": attempt(os.readlink, "/proc/1/exe"), "root": attempt(os.listdir, "/proc/1/root"),
        "network": attempt(os.open, "/proc/1/ns/net", 0)}
for fd in range(3, 16):
    told[f"descriptor {fd}"] = attempt(os.open, f"/proc/1/fd/{fd}", os.O_RDWR)
for signal in (9, 19, 11):  # SIGTERM ends a sandbox in order, which is its own to decide.
    call(62, 1, signal)
told["alive"] = os.path.exists("/proc/1")
print(json.dumps(told, default=str))
"""
KERNEL = """
import ctypes, errno, glob, json, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    got = libc.syscall(number, *arguments)
    return "ok" if got >= 0 else errno.errorcode[ctypes.get_errno()]
room = ctypes.create_string_buffer(256)
told = {"user namespace": call(272, 0x10000000), "network namespace": call(272, 0x40000000),
        "io_uring": call(425, 4, room), "bpf": call(321, 0, room, 120), "setns": call(308, 0, 0),
        "mount": call(165, b"none", b"/mnt", b"tmpfs", 0, 0), "mount tree": call(428, -100, b"/", 1),
        "clone into namespaces": call(56, 0x10000000 | 0x40000000 | 17, 0, 0, 0, 0),
        "device": call(133, b"/tmp/tun", 0o20666, os.makedev(10, 200)), "handle": call(304, -1, room, 0),
        "keys": call(250, 0, -3, 0), "module": call(175, room, 1, b"")}
for path in ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ip_unprivileged_port_start",
             "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/sys/kernel/uevent_helper",
             "/proc/sysrq-trigger", "/sys/fs/cgroup/release_agent", "/sys/class/net/eth0/ifalias"]:
    try:
        os.close(os.open(path, os.O_WRONLY))
        told[path] = "ok"
    except OSError as problem:
        told[path] = errno.errorcode[problem.errno]
told["devices"] = sorted(os.listdir("/dev"))
told["sockets"] = os.popen("find / -xdev -type s 2>/dev/null; find /run -type s 2>/dev/null").read().split()
told["mounts"] = [line.split()[1] for line in open("/proc/mounts") if line.split()[2] not in
                  ("proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay")]
print(json.dumps(told))
"""
ROUTES = """
import errno, json, socket, struct
told = {}
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def order(kind, flags, body):
    link.send(struct.pack("=IHHII", 16 + len(body), kind, flags | 5, 1, 0) + body)  # a request, with an answer
    answer = link.recv(4096)
    return errno.errorcode.get(-struct.unpack_from("=i", answer, 16)[0], "ok")
told["address"] = order(20, 0x600, struct.pack("=BBBBI", 2, 24, 0, 0, 1) + struct.pack("=HH4s", 8, 2, b"\\x0a\\x09\\x09\\x09"))
told["route"] = order(24, 0x600, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + struct.pack("=HH4s", 8, 5, b"\\x0a\\x09\\x09\\x01"))
told["device"] = order(16, 0x600, struct.pack("=BxHiII", 0, 0, 0, 1, 1) + struct.pack("=HH4s", 8, 18, b"\\x08\\0\\x01\\0"))
told["neighbour"] = order(28, 0x600, struct.pack("=BxxxiHBB", 2, 1, 0x80, 0, 1) + struct.pack("=HH4s", 8, 1, b"\\x0a\\x09\\x09\\x01"))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def hardened(house):
    made = house.sandbox(["ok.test"])
    yield made
    made.delete()


@pytest.fixture(params=["root in profile sudo", "user in profile sudo", "profile hardened", "unwalled"])
def somebody(request, walled, hardened, unwalled):
    """Runs a program of Python as each kind of hostile code there is."""
    who, user = {"root in profile sudo": (walled, "root"), "user in profile sudo": (walled, "user"),
                 "profile hardened": (hardened, None), "unwalled": (unwalled, "root")}[request.param]
    return lambda program: who.python(program, **({"user": user} if user else {}))


def test_vsock_and_every_other_family_but_four_is_refused(somebody, plain):
    found = somebody(FAMILIES)
    assert sorted(int(family) for family, told in found.items() if told == "open") == [1, 2, 10, 16]
    assert {found[family] for family in found if int(family) not in (1, 2, 10, 16)} == {"EPERM"}
    outside = json.loads(plain.run(["python3", "-"], text=FAMILIES).stdout)
    assert len([told for told in outside.values() if told == "open"]) > 4, "this kernel has no further family"


def test_nobody_takes_the_first_process_its_descriptors_or_its_namespace(somebody):
    told = somebody(PID_ONE)
    assert told.pop("alive") is True
    assert set(told.pop("fd theft")) <= {"EPERM", "EBADF"}
    assert set(told.values()) <= {"EPERM", "EACCES", "ENOENT", "ENXIO"}, told
    assert somebody("print(1)") == 1, "the guest answers no more"


def test_no_call_path_or_device_leads_around_the_namespaces(somebody):
    told = somebody(KERNEL)
    assert set(told.pop("devices")) <= {"core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm",
                                        "stderr", "stdin", "stdout", "tty", "urandom", "zero", "console"}
    assert told.pop("sockets") == ["/run/sandboxkit/guest.sock"]
    # The engine's own files and ours; all of a disk, none of which is a folder of the machine's own.
    assert set(told.pop("mounts")) <= {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/sbin/sandboxkit-guest",
                                       "/run/sandboxkit", "/usr/sbin/sandboxkit-guest"}
    assert set(told.values()) <= {"EPERM", "EACCES", "EROFS", "ENOENT"}, told


def test_65_no_address_route_neighbour_or_device_can_be_made(somebody):
    assert set(somebody(ROUTES).values()) == {"EPERM"}


def test_the_guests_socket_gives_nothing_to_whoever_dials_it(somebody):
    """And a socket of the sandbox's own at another path is never asked."""
    told = somebody("""
import json, socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(1)
try:
    s.connect("/run/sandboxkit/guest.sock")
    s.sendall(b"GET /denied HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nL")
    data, ancillary, _, _ = s.recvmsg(1000, 1000)
    told = [data.decode("latin-1"), len(ancillary)]
except OSError as problem:
    told = ["", 0]
print(json.dumps(told))
""")
    assert told == ["", 0]
