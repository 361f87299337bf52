import os

import pytest

from house import House, Upstream, wait_for


@pytest.fixture(scope="session")
def upstream():
    served = Upstream(f"sandboxkit-test-{os.getpid()}")
    yield served
    served.close()


@pytest.fixture(scope="session")
def house(upstream, tmp_path_factory):
    built = House(tmp_path_factory.mktemp("house"), upstream.address)
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


@pytest.fixture
def sandbox(house):
    """A walled sandbox that may reach packages.test and nothing else."""
    status, made = house.create(egress={"allowed_domains": ["packages.test"]})
    assert status == 201, made
    yield made["id"]
    house.api("DELETE", f"/v1/sandboxes/{made['id']}")


@pytest.fixture
def nothing_left(house):
    """Holds that a test leaves no container, network, volume or file behind."""
    before = set(house.leftovers())
    yield
    # A worker that was started again probes its engine while it serves already: that goes by itself.
    assert {each for each in set(house.leftovers()) - before if "probe-" not in each} == set()
    wait_for(lambda: set(house.leftovers()) <= before, 60, "the end of the worker's probe")


