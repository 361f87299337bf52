"""Network namespaces of the tests: one process, whose threads stand in different ones.

A socket belongs to the namespace of the thread that opened it, whoever uses it later. So servers and
captures outside of the worker's machine are plain objects of the test, and nothing is left when the
process ends, however it ends.
"""
import concurrent.futures
import ctypes
import os
import subprocess
import threading

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
# Where the run began, before a part of it moved: what needs the real network or files goes back.
BEGAN_IN = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "mnt")}


def new_network():
    """Moves the calling thread into a network namespace of its own."""
    if LIBC.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: the tests of the wall need root")
    run("ip", "link", "set", "lo", "up")
    return threading.get_native_id()


def enter_network(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def run_where_it_began(*argv):
    back = [f"--{option}=/proc/self/fd/{BEGAN_IN[kind]}" for option, kind in (("net", "net"), ("mount", "mnt"))]
    done = subprocess.run(["nsenter", *back, *argv], capture_output=True, text=True, check=False,
                          pass_fds=BEGAN_IN.values())
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def sysctl(name, value):
    """Of the calling thread's namespace."""
    with open("/proc/sys/" + name, "w", encoding="ascii") as setting:
        setting.write(str(value))


class Space:
    """A network namespace and the thread that stands in it."""

    def __init__(self):
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self.id = self.call(new_network)

    def call(self, function, *args, **more):
        return self._thread.submit(function, *args, **more).result(60)

    def run(self, *argv):
        return self.call(run, *argv)

    def close(self):
        self._thread.shutdown()


class Moved:
    """The main thread, and with it what it starts, in a namespace of its own until `close`."""

    def __init__(self):
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        new_network()

    def close(self):
        enter_network(self._before)
        os.close(self._before)
