"""The isolation card of real sandboxes, compared with what their engine says of them."""
import json
import urllib.parse

import pytest

from house import House, engine, wait_for

VALUE = "s3cret-value-that-nobody-may-find"
VARIABLE = "value-of-a-variable"
SECRET = {"name": "API_TOKEN", "domain": "api.test", "header": "Authorization",
          "value_from": {"value": VALUE}, "expires_at": "2999-01-01T00:00:00.000Z"}


@pytest.fixture(scope="module")
def lender(upstream, tmp_path_factory):
    """A deployment that can lend secrets, and whose worker looks at its engine every second."""
    folder = tmp_path_factory.mktemp("card")
    key = folder / "secrets.key"
    key.touch(0o600)
    key.write_bytes(b"k" * 32)
    built = House(folder, upstream.address, worker_options=["--reconcile-interval-ms", "1000"],
                  controller_options=["--secrets-key-file", str(key)])
    yield built
    left = built.close()
    assert left == [], f"left behind: {left}"


@pytest.fixture
def make(lender):
    made = []

    def create(**body):
        status, sandbox = lender.create(**body)
        assert status == 201, sandbox
        made.append(sandbox["id"])
        return sandbox["id"]
    yield create
    for sandbox in made:
        lender.api("DELETE", f"/v1/sandboxes/{sandbox}")


def card_of(house, sandbox):
    status, card = house.api("GET", f"/v1/sandboxes/{sandbox}/isolation")
    assert status == 200, card
    return card


def lines_of(card, topic):
    return [line for line in card["lines"] if line["topic"] == topic]


def container(sandbox):
    filters = json.dumps({"label": [f"dev.sandboxkit.sandbox={sandbox}", "dev.sandboxkit.role=sandbox"]})
    status, found = engine("GET", f"/containers/json?all=1&filters={urllib.parse.quote(filters)}")
    assert (status, len(found)) == (200, 1), found
    return engine("GET", f"/containers/{found[0]['Id']}/json")[1]


def check_root(card, sandbox):
    """What the card declares is what the engine was told."""
    said = lines_of(card, "root")[0]["details"]
    seen = container(sandbox)
    assert said["first_process"] == seen["Config"]["User"]
    assert said["no_new_privileges"] == ("no-new-privileges" in seen["HostConfig"]["SecurityOpt"])
    assert seen["HostConfig"]["CapDrop"] == ["ALL"]
    assert said["capabilities"] == (seen["HostConfig"]["CapAdd"] or [])


def test_the_card_of_a_walled_sandbox_without_secrets(lender, make):
    sandbox = make(egress={"allowed_domains": ["packages.test"]})

    def walls():
        found = lines_of(card_of(lender, sandbox), "wall")
        return found if found[0]["known"] == "structural" else None
    read_back, probed = wait_for(walls, 30, "the wall that the worker read back")
    assert read_back["details"]["structure"] == "internal-net"
    assert read_back["at"]
    assert (probed["known"], probed["details"]["capability"]) == ("probed", "egress.internal-net")
    anchor = container(sandbox)["HostConfig"]["NetworkMode"].removeprefix("container:")
    networks = engine("GET", f"/containers/{anchor}/json")[1]["NetworkSettings"]["Networks"].values()
    assert [engine("GET", f"/networks/{n['NetworkID']}")[1]["Internal"] for n in networks] == [True]
    card = card_of(lender, sandbox)
    check_root(card, sandbox)
    assert lines_of(card, "reach")[0]["details"]["allowed_domains"] == ["packages.test"]
    assert lines_of(card, "secrets")[0]["statement"] == "No secret is lent to it."
    assert any("broadcasts" in line["statement"] for line in lines_of(card, "left_open"))


def test_the_card_of_a_walled_sandbox_with_a_lent_secret(lender, make):
    sandbox = make(egress={"allowed_domains": ["api.test"]}, secrets=[SECRET],
                   env={"PASSWORD": VARIABLE}, profile="sudo")
    card = card_of(lender, sandbox)
    lent = lines_of(card, "secrets")[0]["details"]
    assert (lent["name"], lent["domain"], lent["expired"]) == ("API_TOKEN", "api.test", False)
    assert lent["expires_at"] == SECRET["expires_at"]
    check_root(card, sandbox)
    shown = lender.cli("isolation", sandbox)
    assert shown.returncode == 0, shown.stderr
    as_json = lender.cli("isolation", sandbox, "--json")
    assert json.loads(as_json.stdout)["lines"][0]["topic"] == "root"
    for text in (json.dumps(card), shown.stdout.decode(), as_json.stdout.decode()):
        assert "API_TOKEN" in text and "PASSWORD" in text
        assert VALUE not in text and VARIABLE not in text


def test_the_card_of_an_unwalled_sandbox_and_of_one_that_ended(lender, make):
    sandbox = make(egress=None)
    card = card_of(lender, sandbox)
    assert lines_of(card, "reach")[0]["details"] == {"walled": False}
    assert lines_of(card, "wall") == []
    check_root(card, sandbox)
    assert lender.api("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 204
    after = card_of(lender, sandbox)
    assert after["state"] == "deleted"
    assert lines_of(after, "reach")[0]["statement"].startswith("While it ran: It has no wall")
