"""Attack 27 of the list and its kin: name servers that lie in the form of their messages, not in what they say.

Whoever answers a look-up may be the attacker's own server, below an allowed wildcard. Whatever it sends, the proxy
dials an address that an answer to its own question holds, or none, and says so in time.
"""
import struct
import time

import pytest

from internet import ALLOWED, DNS, EVIL
from names import Lie, encode_name, encode_record, message_of
from packets import OUTGOING, outside_of
from wall_house import ask_proxy, connect, get, status_and_reason

OWNER = b"\xc0\x0c"  # The question's name.
TRUNCATED = 0x8380
GOOD, BAD = (encode_record(OWNER, address, 0) for address in (ALLOWED, EVIL))
TO_ITSELF = b"\xc0\x1c"


def other_question():
    return encode_name("other.w.test") + struct.pack("!HH", 1, 1)


def after(*lies):
    """The lies by UDP, then the truth; the truth by TCP."""
    def make(query, question, transport):
        told = [lie(query, question) for lie in lies] if transport == "udp" else []
        return [*told, message_of(query, question, [GOOD])]
    return Lie(make)


def always(lie):
    return Lie(lambda query, question, _: [lie(query, question)])


def truncated_then(by_tcp):
    def make(query, question, transport):
        return [message_of(query, question, [BAD], flags=TRUNCATED)] if transport == "udp" else by_tcp(query, question)
    return Lie(make)


def wrong_number(query, question):
    return message_of(query, question, [BAD], number=bytes([query[0] ^ 0x55, query[1] ^ 0xAA]))


def loop(query, question):
    """a -> b -> a."""
    other = encode_name("b.loop.w.test")
    first = OWNER + struct.pack("!HHIH", 5, 1, 0, len(other)) + other
    back = encode_name("loop.w.test")
    return message_of(query, question, [first, other + struct.pack("!HHIH", 5, 1, 0, len(back)) + back])


def many(address, count):
    """As many as 64 KiB hold."""
    record = encode_record(OWNER, address, 0)
    return truncated_then(lambda query, question: [message_of(query, question, [record] * count)])


# name -> what the server does, the statuses that are right.
LIES = {
    "number": (after(wrong_number), {"200"}),
    "numbers": (after(*[wrong_number] * 30), {"200"}),
    "question": (after(lambda query, _: message_of(query, other_question(), [BAD])), {"200"}),
    "query": (after(lambda query, question: query), {"200", "502"}),
    "short": (after(lambda query, _: query[:5]), {"200", "502"}),
    "number-only": (always(wrong_number), {"504"}),
    "truncated": (truncated_then(lambda query, question: [message_of(query, question, [GOOD])]), {"200"}),
    "truncated-silent": (truncated_then(lambda query, question: []), {"504"}),
    "truncated-twice": (truncated_then(lambda query, question: [
        message_of(query, question, [BAD], flags=TRUNCATED)[:20]]), {"502", "504"}),
    "loop": (always(loop), {"502"}),
    "compressed": (always(lambda query, question: message_of(query, question, [
        TO_ITSELF + BAD[2:]]).replace(TO_ITSELF, struct.pack("!H", 0xC000 | 12 + len(question)))), {"502", "504"}),
    "compressed-alias": (always(lambda query, question: message_of(query, question, [
        OWNER + struct.pack("!HHIH", 5, 1, 0, 2) + struct.pack("!H", 0xC000 | 12 + len(question) + 12), BAD])), {"502", "504"}),
    "count": (always(lambda query, question: message_of(query, question, [GOOD], count=65535)), {"502", "504"}),
    "owner": (always(lambda query, question: message_of(query, question, [
        encode_record(encode_name("other.w.test"), EVIL, 0)])), {"502"}),
    "length": (always(lambda query, question: message_of(query, question, [
        OWNER + struct.pack("!HHIH", 1, 1, 0, 400) + b"\x5d\xb8\xd9\x42"])), {"502", "504"}),
    "class": (always(lambda query, question: message_of(query, question, [
        OWNER + struct.pack("!HHIH", 1, 3, 0, 4) + b"\x5d\xb8\xd9\x42"])), {"502"}),
    "additional": (always(lambda query, question: message_of(query, question, count=0, more=BAD)), {"502"}),
    "many": (many(ALLOWED, 4000), {"200"}),
    "many-private": (many("169.254.169.254", 4000), {"403"}),
}


def left_the_machine(seen, name):
    """What is outside of the policy; the lies themselves come the other way."""
    sent = [packet for packet in seen if packet.kind != OUTGOING]
    left = outside_of(sent, [(ALLOWED, 80)], [name], DNS)
    # Where the first answer was taken, the kernel answers the next one.
    return [packet for packet in left if (packet.protocol, packet.port, packet.to) != ("icmp", 3, DNS)]


@pytest.mark.parametrize("which", LIES)
def test_27_a_name_server_that_lies_in_form_leads_nowhere(internet, walled, which):
    name = f"{which}.w.test"
    internet.dns.answers[name], right = LIES[which]
    with internet.watch() as seen:
        begin = time.monotonic()
        answer = ask_proxy(walled, [get(f"http://{name}/")])[0]
        took = time.monotonic() - begin
    assert left_the_machine(seen, name) == []
    told = status_and_reason(answer)
    assert told.split(" ")[0] in right, told
    assert took < 14, "longer than a look-up may take, with a busy machine's share"
    assert internet.dns.queries and len(internet.dns.queries) <= 6, internet.dns.queries


def test_32_names_below_a_wildcard_leave_no_faster_than_the_limit(internet, house):
    """1,200 a minute: what carries data to that domain's own name servers is bounded."""
    sandbox = house.sandbox(["*.w.test"])
    names = [f"{i:04}.w.test" for i in range(1300)]
    internet.dns.answers["*.w.test"] = []  # Asks no connection of anybody.
    try:
        with internet.only(names=names):
            told = [status_and_reason(answer) for answer in ask_proxy(sandbox, [connect(f"{name}:443") for name in names])]
        assert internet.dns.queries and len(set(internet.dns.asked())) <= 1200 + 60, "more than a minute's share"
        refused = [each for each in told if each.startswith("429")]
        assert len(refused) == len(names) - len(set(internet.dns.asked())) > 0, set(told)
    finally:
        sandbox.delete()
