#!/usr/bin/env python3
"""Placements a second beside those of Docker Swarm, on this machine, one after the other in one run.

  tests/bench/swarm.py BUILD ENGINE_SOCKET [TASKS]

The engine must be one that may become a swarm for the time of the run, best one of its own in a network
namespace of its own: two engines in one namespace take each other's bridges and rules away. It is made a
swarm of one node and leaves it at the end. The service asks for an image that is nowhere, so tasks are assigned and never
started: what is counted is the scheduler. Ours is control_bench with 64 callers: decided, admitted,
and durable on the disk.
"""
import json
import re
import subprocess
import sys
import time

SERVICE = "sandboxkit-bench"


def docker(socket, *args):
    return subprocess.run(["docker", "-H", "unix://" + socket, *args], check=True,
                          capture_output=True, text=True).stdout


def tasks(socket):
    """The service's tasks as the engine's API gives them: one call, no client-side formatting."""
    filters = json.dumps({"service": [SERVICE]})
    return json.loads(subprocess.run(
        ["curl", "-sG", "--unix-socket", socket, "http://engine/v1.41/tasks", "--data-urlencode",
         "filters=" + filters], check=True, capture_output=True, text=True).stdout)


def swarm_rate(socket, count):
    docker(socket, "swarm", "init", "--advertise-addr", "127.0.0.1")
    try:
        start = time.monotonic()
        docker(socket, "service", "create", "--detach", "--no-resolve-image", "--name", SERVICE,
               "--replicas", str(count), "--restart-condition", "none", "sandboxkit/nowhere:0")
        deadline = start + 120
        while time.monotonic() < deadline:
            assigned = sum(1 for task in tasks(socket) if task.get("NodeID"))
            if assigned >= count:
                return count / (time.monotonic() - start)
            time.sleep(0.2)
        sys.exit(f"swarm assigned {assigned} of {count} tasks in two minutes")
    finally:
        docker(socket, "swarm", "leave", "--force")


def our_rate(build, folder):
    text = subprocess.run([build + "/tests/bench/control_bench", folder, "--placements"], check=True,
                          capture_output=True, text=True).stdout
    return float(re.search(r"64 callers:\s+([0-9]+)/s", text).group(1)), text


def main():
    build, socket = sys.argv[1], sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    ours, text = our_rate(build, ".")
    print(text, end="")
    swarm = swarm_rate(socket, count)
    print(f"Docker Swarm: {swarm:.0f} tasks assigned a second ({count} tasks)")
    print(f"ours / swarm: {ours / swarm:.2f}")


if __name__ == "__main__":
    main()
