"""Fixtures of the wall's tests: an internet that is not one, an engine, and a deployment a structure.

The main thread of the run stands in the machine's network namespace, so the engine, the daemons and
`House`, which reaches them on loopback, are in it without more ado.
"""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from internet import ALLOWED, Internet  # noqa: E402
from wall_engine import Plain, WallEngine  # noqa: E402
from wall_house import WallHouse  # noqa: E402

STRUCTURES = ["internal-net", "isolated-ns"]
POLICY = ["ok.test", "*.w.test", "*.m.test:8899"]


@pytest.fixture(scope="session")
def internet(tmp_path_factory):
    """Fresh for each test as far as names and logs go, see `clean_internet`."""
    built = Internet(tmp_path_factory.mktemp("internet"))
    yield built
    built.close()


@pytest.fixture(autouse=True)
def clean_internet(internet):
    internet.dns.answers.clear()
    internet.dns.answers.update({"ok.test": [ALLOWED], "*.w.test": [ALLOWED]})
    for log in (internet.dns.queries, internet.machine_dns.queries, internet.web.visits,
                internet.web_6.visits, internet.tls.visits):
        log.clear()


@pytest.fixture(scope="session")
def own(internet):
    built = WallEngine()
    yield built
    built.close()


@pytest.fixture(scope="session", params=STRUCTURES)
def house(request, own, tmp_path_factory):
    built = WallHouse(tmp_path_factory.mktemp(request.param), own, request.param)
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


@pytest.fixture(scope="session")
def walled(house):
    """A sandbox that may reach ok.test, *.w.test and, at port 8899, *.m.test, in profile `sudo`: its code is root in it."""
    made = house.sandbox(POLICY, profile="sudo")
    yield made
    made.delete()


@pytest.fixture(scope="session")
def unwalled(house):
    made = house.sandbox(walled=False, profile="sudo")
    yield made
    made.delete()


@pytest.fixture(scope="session")
def plain(own):
    """A container on the engine's default bridge, with what such a container has by default."""
    made = Plain(own)
    yield made
    made.close()
