"""Attacks 39, 61, 62, 66 and 67 of the list: the machine's own services, and other sandboxes.

What reached a service is told by the service, and what reached the machine by a capture of its bridges.
"""
import ipaddress
import json
import pathlib

import pytest

from ears import ABSTRACT, PORT, Ears
from internet import MACHINE, MACHINE_6, MACHINE_CORP
from packets import BROADCAST, HOST, MULTICAST, OUTGOING, is_neighbourly
from spaces import run, sysctl

ATTACKER = pathlib.Path(__file__).with_name("attacker.py").read_text()


@pytest.fixture(scope="module")
def ears(own):
    made = Ears()
    yield made
    made.close()


def machine_addresses():
    """Every address of the machine but loopback, of both families: its bridges' are among them."""
    found = set()
    for device in json.loads(run("ip", "-json", "address", "show")):
        for address in device["addr_info"]:
            found.add((address["local"], address["local"].startswith("fe80")))
    return sorted((a, link) for a, link in found if not ipaddress.ip_address(a).is_loopback)


def wall_of(sandbox):
    """The sandbox's address and its network's first host, where a gateway usually is."""
    for network in sandbox.container()["NetworkSettings"]["Networks"].values():
        if network["IPAddress"]:
            block = ipaddress.ip_network(f"{network['IPAddress']}/{network['IPPrefixLen']}", strict=False)
            return network["IPAddress"], str(block[1]), str(block.broadcast_address)
    return None


def orders(addresses, *more):
    told = {}
    for to, link in [*addresses, *((address, False) for address in more if address)]:
        told[f"machine_udp/{to}"] = {"to": to, "port": PORT, "token": f"udp {to}", "device": link or None}
        if not link and not to.startswith(("224.", "255.")):
            told[f"machine_tcp/{to}"] = {"to": to, "port": PORT, "token": f"tcp {to}"}
    told["machine_abstract"] = {"name": ABSTRACT, "token": "abstract"}
    return told


def heard_of(ears, attack):
    ears.heard.clear()
    told = attack()
    return told, list(ears.heard)


def test_61_62_no_address_of_the_machine_answers_a_walled_sandbox(ears, walled, plain):
    addresses = machine_addresses()
    assert {MACHINE, MACHINE_CORP, MACHINE_6} <= {address for address, _ in addresses}
    wall = wall_of(walled)
    told = orders(addresses, *(wall[1:2] if wall else ()))
    answers, heard = heard_of(ears, lambda: walled.python(ATTACKER, json.dumps(told), user="root"))
    assert heard == [], answers
    refused = [name for name, answer in answers.items() if answer.startswith("ok") or answer == "ECONNREFUSED"]
    assert refused == ["machine_abstract"], "an answer, though not of a service"
    # The same from where no wall is reaches all of them but the other bridges' link-local addresses.
    _, reached = heard_of(ears, lambda: json.loads(plain.run(["python3", "-", json.dumps(told)], text=ATTACKER).stdout))
    global_ones = {f"{kind} {address}" for address, link in addresses if not link for kind in ("tcp", "udp")}
    assert global_ones <= set(reached), global_ones - set(reached)
    assert any(said.startswith("udp fe80") for said in reached), reached


def shout(internet, ears, walled, to):
    """What the machine's services heard of it, and what left the machine meanwhile."""
    told = {f"machine_udp/{address}": {"to": address, "port": PORT, "token": f"udp {address}"} for address in to}
    with internet.watch() as seen:
        answers, heard = heard_of(ears, lambda: walled.python(ATTACKER, json.dumps(told), user="root"))
    assert not [answer for answer in answers.values() if answer.startswith("ok")], answers
    return heard, [p for p in seen if not is_neighbourly(p) and p.source == MACHINE]


def test_66_broadcast_and_multicast_reach_nobody_on_a_machine_with_strict_reverse_paths(
        internet, house, ears, walled, plain):
    wall = wall_of(walled)
    to = ["255.255.255.255", "224.0.0.1", *(wall[2:] if wall else ())]
    sysctl("net/ipv4/conf/all/rp_filter", 1)
    try:
        assert shout(internet, ears, walled, to) == ([], [])
    finally:
        sysctl("net/ipv4/conf/all/rp_filter", 0)
    heard, left = shout(internet, ears, walled, to)
    if house.structure == "internal-net":
        # The known limit of engines that give an internal network a default route (before 23), without that
        # setting: one way, to services on every address. Their answers go where the machine's routes lead.
        assert set(heard) <= {"udp 255.255.255.255", "udp 224.0.0.1"}, heard
        assert {(p.protocol, p.source_port, p.payload) for p in left} <= {("udp", PORT, b"heard")}, left
    else:
        assert (heard, left) == ([], [])
    told = {"machine_udp": {"to": "255.255.255.255", "port": PORT, "token": "udp control"}}
    _, reached = heard_of(ears, lambda: plain.run(["python3", "-", json.dumps(told)], text=ATTACKER))
    assert reached == ["udp control"]


def test_the_machine_takes_no_unicast_from_a_wall(internet, walled):
    """Not even one that no service is there for, by the capture of all of the machine's bridges."""
    wall = wall_of(walled)
    if wall is None:
        pytest.skip("this structure has no network")
    with internet.inner_capture.watch() as seen:
        walled.shell(f"for a in {wall[1]} {MACHINE} {MACHINE_CORP}; do "
                     "timeout 1 bash -c \"echo x > /dev/tcp/$a/22\"; timeout 1 bash -c \"echo x > /dev/udp/$a/22\"; done",
                     user="root")
    taken = [p for p in seen if p.source == wall[0] and p.device.startswith("br-") and p.kind == HOST]
    assert taken == []
    answered = [p for p in seen if p.to == wall[0] and p.kind == OUTGOING and p.device.startswith("br-")]
    assert answered == [], "the machine itself answered"
    assert not [p for p in seen if p.source == wall[0] and p.kind in (BROADCAST, MULTICAST) and p.protocol != "arp"]


def test_an_abstract_socket_of_the_machine_is_not_there(ears, walled):
    answers, heard = heard_of(ears, lambda: walled.python(ATTACKER, json.dumps(
        {"machine_abstract": {"name": ABSTRACT, "token": "abstract"}}), user="root"))
    assert (answers["machine_abstract"], heard) == ("ECONNREFUSED", [])


@pytest.fixture(scope="module")
def neighbour(house):
    made = house.sandbox(["ok.test"], profile="sudo")
    yield made
    made.delete()


def test_67_a_sandbox_reaches_no_other_ones_network_or_proxy(walled, neighbour, house):
    """Not past its proxy, and not by asking it, also where its policy would lift private addresses."""
    targets = []
    for role in ("sandbox", "egress"):
        container = neighbour.container(role)
        for network in container["NetworkSettings"]["Networks"].values() if container else ():
            targets.append(network["IPAddress"])
    targets = [address for address in targets if address]
    if not targets:
        pytest.skip("this structure gives a sandbox no address")
    neighbour.shell("python3 -m http.server 8080 >/dev/null 2>&1 & until (: < /dev/tcp/127.0.0.1/8080) 2>/dev/null; "
                    "do :; done")
    lifted = house.sandbox([], ["10.0.0.0/8:3128", "10.0.0.0/8:8080", "172.16.0.0/12:3128"], profile="sudo")
    try:
        for sandbox in (walled, lifted):
            each = [(address, port) for address in targets for port in (3128, 8080)]
            told = {f"machine_tcp/{address}:{port}": {"to": address, "port": port, "token": "x"} for address, port in each}
            direct = sandbox.python(ATTACKER, json.dumps(told), user="root")
            assert set(direct.values()) <= {"TimeoutError", "ENETUNREACH", "EHOSTUNREACH"}, direct
            asked = sandbox.shell("".join(f"curl -sS -m 15 -o /dev/null -w '%{{http_code}} ' http://{address}:{port}/ & "
                                          for address, port in each) + "wait")["stdout"].split()
            assert len(asked) == len(each) and set(asked) <= {"403", "502", "504"}, asked
    finally:
        lifted.delete()
