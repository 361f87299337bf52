"""Tenants, roles and refusals as a client meets them."""
import concurrent.futures
import json
import socket

import pytest

from house import binary


@pytest.fixture(scope="module")
def other(house):
    return house.make_workspace("rival")


# Complaint 12: a data-plane route without the check of the owner.
def test_a_foreign_sandbox_is_answered_like_an_absent_one(house, other, sandbox):
    for method, tail, body in [("GET", "", None), ("DELETE", "", None), ("POST", "/timeout", {"timeout_seconds": 5}),
                               ("POST", "/exec", {"command": ["true"]}), ("GET", "/files?path=/etc/passwd", None),
                               ("GET", "/egress/denied", None), ("GET", "/stats", None)]:
        foreign = house.api(method, f"/v1/sandboxes/{sandbox}{tail}", body, key=other)
        absent = house.api(method, "/v1/sandboxes/i00000000000000000000" + tail, body, key=other)
        assert foreign == absent and foreign[0] == 404, (method, tail, foreign, absent)
    assert house.sandboxes(key=other) == []
    assert house.exec(sandbox, ["true"])[0] == 200


def test_a_tenants_create_never_lands_on_another_tenants_worker(house, other):
    status, answer = house.create(key=other)
    assert status in (409, 503), answer
    assert "w1" not in json.dumps(answer), "a refusal must not speak of other tenants' workers"


def test_a_member_may_use_sandboxes_but_not_mint_keys(house):
    status, made = house.api("POST", "/v1/keys", {"role": "member", "name": "ci"})
    assert status == 201, made
    member = made["key"]
    for method, path, body in [("POST", "/v1/keys", {"role": "owner"}), ("POST", "/v1/join-tokens", {}),
                               ("GET", "/v1/keys", None)]:
        status, answer = house.api(method, path, body, key=member)
        assert (status, answer["error"]) == (403, "owner_required"), (path, answer)
    assert house.api("GET", "/v1/workers", key=member)[0] == 200
    assert house.api("DELETE", f"/v1/keys/{made['id']}")[0] == 204
    assert house.api("GET", "/v1/workers", key=member)[0] == 401


def test_a_worker_credential_reaches_two_routes_and_nothing_else(house):
    credential = json.loads((house.folder / "worker" / "worker.json").read_text())["credential"]
    for method in ("GET", "POST", "DELETE", "PUT"):
        for path in ("/v1/sandboxes", "/v1/workers", "/v1/keys", "/v1/nothing", "/", "/v1/worker/join",
                     "/v1/sandboxes/i00000000000000000000/exec", "/v1/sandboxes/x/files?path=/"):
            status, answer = house.api(method, path, {} if method in ("POST", "PUT") else None, key=credential)
            assert (status, answer["error"]) == (403, "worker_role"), (method, path, answer)


def test_a_join_token_works_once(house, tmp_path):
    status, made = house.api("POST", "/v1/join-tokens", {"max_uses": 1})
    first = house.api("POST", "/v1/worker/join", {"name": "once"}, key=made["token"])
    assert first[0] in (200, 201), first
    second = house.api("POST", "/v1/worker/join", {"name": "twice"}, key=made["token"])
    assert second[0] == 401, second
    assert house.api("DELETE", f"/v1/workers/{first[1]['worker']}")[0] == 204


def test_a_join_token_opens_nothing_but_the_join(house):
    status, made = house.api("POST", "/v1/join-tokens", {})
    for path in ("/v1/sandboxes", "/v1/workers", "/v1/nothing"):
        assert house.api("GET", path, key=made["token"])[0] in (401, 403)
    assert house.api("DELETE", f"/v1/join-tokens/{made['id']}")[0] == 204


# Complaint 15: the platform needs a credential of its own, not a tenant.
def test_the_operator_sees_no_tenants_sandboxes(house, sandbox):
    for path in ("/v1/sandboxes", f"/v1/sandboxes/{sandbox}"):
        assert house.api("GET", path, key=house.operator_key)[0] == 403


def test_parallel_creates_at_the_limit_give_exactly_the_limit(house, nothing_left):
    key = house.make_workspace("limited", max_sandboxes=3)
    status, made = house.api("POST", "/v1/join-tokens", {"workspace": "", "name": "shared"}, key=house.operator_key)
    assert status == 201, made
    from house import Daemon, ENGINE, wait_for
    folder = house.folder / "shared-worker"
    shared = Daemon([binary("sandboxkit-worker"), "--controller", house.url, "--state-dir", str(folder),
                     "--join-token", made["token"], "--name", "shared", "--engine-socket", ENGINE,
                     "--guest-binary", binary("sandboxkit-guest"), "--egress-binary", binary("sandboxkit-egress"),
                     "--subnet-pool", "10.232.0.0/16", "--heartbeat-interval-ms", "1000"], house.folder / "shared.log")
    try:
        wait_for(lambda: any(w["name"] == "shared" and w.get("connected")
                             for w in house.api("GET", "/v1/workers", key=key)[1]["workers"]), 60, "the shared worker")
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda _: house.create(key=key), range(12)))
        made = [a for s, a in answers if s == 201]
        refused = [a for s, a in answers if s == 403]
        assert (len(made), len(refused)) == (3, 9), answers
        assert all(a["error"] == "concurrency_limit" and (a["limit"], a["used"]) == (3, 3) for a in refused)
        for sandbox in made:
            assert house.api("DELETE", f"/v1/sandboxes/{sandbox['id']}", key=key)[0] == 204
    finally:
        shared.stop()
        ident = next(w["id"] for w in house.api("GET", "/v1/workers", key=key)[1]["workers"] if w["name"] == "shared")
        house.api("DELETE", f"/v1/workers/{ident}", key=house.operator_key)


def test_the_same_idempotency_key_gives_the_same_sandbox(house, nothing_left):
    body = {"image": "sandboxkit/base", "egress": {"allowed_domains": []}}
    headers = {"Idempotency-Key": "round-1"}
    first = house.api("POST", "/v1/sandboxes", body, headers=headers)
    again = house.api("POST", "/v1/sandboxes", body, headers=headers)
    other = house.api("POST", "/v1/sandboxes", {**body, "memory_mb": 600}, headers=headers)
    assert first[0] == 201 and again[0] in (200, 201) and first[1]["id"] == again[1]["id"]
    assert (other[0], other[1]["error"]) == (422, "idempotency_mismatch")
    assert house.api("DELETE", f"/v1/sandboxes/{first[1]['id']}")[0] == 204


def test_a_name_belongs_to_one_live_sandbox(house, nothing_left):
    first = house.create(name="build")
    again = house.create(name="build")
    other = house.create(name="build", egress={"allowed_domains": ["a.test"]})
    assert first[0] == 201 and again[0] == 200 and again[1]["id"] == first[1]["id"]
    assert (other[0], other[1]["error"]) == (409, "spec_mismatch")
    assert house.api("GET", "/v1/sandboxes/build")[1]["id"] == first[1]["id"]
    assert house.api("DELETE", "/v1/sandboxes/build")[0] == 204
    assert house.create(name="build")[0] == 201
    assert house.api("DELETE", "/v1/sandboxes/build")[0] == 204


def test_the_api_describes_itself_without_a_credential(house):
    status, answer = house.api("GET", "/openapi.json", key="")
    assert status == 200 and answer["openapi"].startswith("3.")
    assert "/v1/sandboxes" in answer["paths"]
    assert house.request("GET", "/healthz", key="")[0] in (200, 204)


def test_idle_connections_do_not_hold_the_api_up(house):
    idle = [socket.create_connection(("127.0.0.1", house.port), timeout=10) for _ in range(500)]
    try:
        assert house.api("GET", "/v1/sandboxes")[0] == 200
    finally:
        for connection in idle:
            connection.close()
