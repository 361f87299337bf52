"""Attacks 28, 29, 45, 61 to 64, 66 and 71 of the list, and what it does not name: every way out of a sandbox
that does not ask the proxy.

Each attack aims at an address of its own. All are made at once from inside of a walled sandbox, as root in
it, and nothing may cross the wire to the outside meanwhile. The same code, in a plain container and with
every capability, has to be seen there: otherwise its silence would say nothing.
"""
import json
import pathlib

import pytest

from packets import is_neighbourly
from spaces import run, sysctl

ATTACKER = pathlib.Path(__file__).with_name("attacker.py").read_text()
NOT_IN_THIS_KERNEL = {"EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EAFNOSUPPORT"}
NUMBERS = {  # of the attack list; 0: not on it
    "tcp": 62, "tcp_tls": 62, "tcp_dns": 29, "tcp_dot": 29, "tcp_smtp": 41, "tcp_low_port": 0, "tcp_fast_open": 0,
    "tcp_mapped": 71, "tcp_bound_to_device": 0, "tcp_marked": 0, "mptcp": 0, "udp_dns": 29, "udp_quic": 45,
    "udp_large": 0, "udp_lite": 0, "udp_source_routed": 64, "udp_transparent": 0,
    "ping_socket": 0, "icmp_raw": 63, "ip_protocol_2": 63, "ip_protocol_4": 63, "ip_protocol_41": 63,
    "ip_protocol_47": 63, "ip_protocol_50": 63, "ip_protocol_89": 63, "ip_protocol_112": 63, "ip_protocol_253": 63,
    "raw_header": 63, "sctp": 0, "dccp": 0, "tcp6": 71, "udp6": 71, "ping6": 71, "frame": 63, "frame_spoofed": 64,
    "frame_cooked": 63}
WAYS = list(NUMBERS)
# For these the kernel itself has to say no, in any sandbox: what they need is dropped.
PRIVILEGED = {name for name in WAYS if name.startswith(("ip_protocol_", "frame", "raw_"))} | {
    "icmp_raw", "ping6", "udp_transparent", "udp_source_routed", "tcp_marked"}


def target(name):
    number = WAYS.index(name) + 1
    return f"2606:2800:200::{number:x}" if name.endswith("6") else f"93.200.1.{number}"


def orders(hardware):
    told = {name: {"to": target(name)} for name in WAYS}
    for name in WAYS:
        if name.startswith("frame"):
            told[name]["hardware"] = hardware
    return json.dumps(told)


class Volley:
    def __init__(self, internet, attack):
        with internet.watch() as seen:
            self.told = attack()
        self.packets = [packet for packet in seen if not is_neighbourly(packet)]

    def towards(self, name):
        return [packet for packet in self.packets if packet.to == target(name)]


def hardware_of(device):
    return json.loads(run("ip", "-json", "link", "show", "dev", device))[0]["address"].replace(":", "")


@pytest.fixture(scope="session")
def control(internet, plain):
    """The same attacks where no wall is, with every capability, by way of a host that takes anything."""
    for device in ("all", "docker0"):
        sysctl(f"net/ipv4/conf/{device}/accept_source_route", 1)

    def attack():
        done = plain.run(["python3", "-", orders(hardware_of("docker0"))], text=ATTACKER)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return Volley(internet, attack)


@pytest.fixture(scope="session")
def volley(internet, own, walled):
    networks = walled.container()["NetworkSettings"]["Networks"]
    wall = [network["NetworkID"] for network in networks.values() if network["NetworkID"]]
    # The proxy's own end is the nearest thing that could carry a frame on; else the wall's bridge.
    sidecar = walled.container("egress")
    if sidecar:
        ends = sidecar["NetworkSettings"]["Networks"].values()
        hardware = next(end["MacAddress"] for end in ends if end["NetworkID"] in wall).replace(":", "")
    else:
        hardware = "ffffffffffff"
    return Volley(internet, lambda: walled.python(ATTACKER, orders(hardware), user="root"))


@pytest.mark.parametrize("name", WAYS, ids=lambda name: f"{NUMBERS[name] or 'new'}-{name}")
def test_a_way_out_is_open_to_a_plain_container_and_closed_to_a_walled_sandbox(name, control, volley):
    assert volley.towards(name) == [], volley.told[name]
    if not control.towards(name) and control.told[name] in NOT_IN_THIS_KERNEL:
        assert volley.told[name] in NOT_IN_THIS_KERNEL | {"EPERM"}
        pytest.skip(f"this kernel does not know it: {control.told[name]}")
    assert control.towards(name), ("the capture would not have seen it", control.told[name])
    assert not volley.told[name].startswith("ok"), volley.told[name]
    if name in PRIVILEGED:
        assert volley.told[name] in ("EPERM", "ENODEV"), volley.told[name]


def test_of_all_ways_out_at_once_not_one_packet_leaves(volley):
    assert volley.packets == []
