// What callers are told when there is no room: complaints of docs/field-complaints.md.
#include "tests/unit/control/house.h"

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::string counts_of(const Answer& answer) {
  const json::Value* counts = answer.body.find("counts");
  return counts == nullptr ? "none" : json::dump(*counts);
}

std::string id_of(const Answer& made) { return made.body.text("id"); }

/// Makes sandboxes of a size until one is refused; their ids and the refusal.
std::vector<std::string> fill(const House& house, const std::string& size, Answer& refusal) {
  std::vector<std::string> made;
  for (refusal = house.create(size); refusal.status == 201; refusal = house.create(size)) {
    made.push_back(id_of(refusal));
  }
  return made;
}

}  // namespace

// Complaint 3: how many fit differs from round to round.
TEST_CASE("a worker holds as many each time it is filled, and refuses the next in the same words") {
  const House house;
  const auto worker = house.worker();
  const std::string quarter = R"("memory_mb": 65536)";  // Of what the worker has.
  std::set<std::string> refusals;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    Answer refusal;
    const auto made = fill(house, quarter, refusal);
    CHECK(made.size() == 4);
    CHECK(refusal.error() == "no_capacity");
    CHECK(counts_of(refusal) == R"({"memory":1})");
    refusals.insert(refusal.text);
    refusals.insert(house.create(quarter).text);
    for (const std::string& id : made) {
      REQUIRE(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
    }
  }
  CHECK(refusals.size() == 1);
}

// Complaint 4: a placement fails and does not say why.
TEST_CASE("a refusal counts own and unscoped workers by the filter that refused them, no others") {
  const House house;
  const auto cordoned = house.worker();
  FakeWorker::Options unwalled{.url = {}, .join_token = {}, .name = "shared", .capabilities = {}};
  unwalled.join_token = house.join_token(house.operator_key(), R"({"workspace": ""})");
  const auto shared = house.worker(unwalled);
  FakeWorker::Options theirs{house.url(), house.join_token(house.make_workspace("rival"))};
  FakeWorker rival(theirs);
  REQUIRE(rival.start());
  REQUIRE(house.call("POST", "/v1/workers/" + cordoned->id() + "/cordon").status == 200);
  const auto refused = house.create();
  CHECK(refused.status == 503);
  CHECK(refused.error() == "no_capacity");
  CHECK(counts_of(refused) == R"({"capability":1,"state":1})");
  CHECK(refused.text.find("rival") == std::string::npos);
  CHECK(rival.orders().empty());
}

// Complaint 8: one message for every kind of lack.
TEST_CASE("no worker, none ready, none able and no image are four different refusals") {
  const House house;
  const auto unwalled = [&](const std::string& more = {}) {
    return house.call("POST", "/v1/sandboxes", R"({"image": "x", "egress": null)" + more + "}");
  };
  const auto none_registered = unwalled();
  CHECK(none_registered.error() == "no_capacity");
  CHECK(counts_of(none_registered) == "{}");
  CHECK(none_registered.body.text("message").find("join one") != std::string::npos);

  const auto worker = house.worker();
  REQUIRE(house.call("POST", "/v1/workers/" + worker->id() + "/cordon").status == 200);
  const auto none_ready = unwalled();
  CHECK(none_ready.error() == "no_capacity");
  CHECK(counts_of(none_ready) == R"({"state":1})");
  REQUIRE(house.call("POST", "/v1/workers/" + worker->id() + "/uncordon").status == 200);

  const auto none_able = unwalled(R"(, "persistence": "workspace")");
  CHECK(none_able.status == 409);
  CHECK(none_able.error() == "worker_capability_unavailable");
  CHECK(counts_of(none_able) == R"({"capability":1})");

  worker->refuse_creates(404, "image_not_found", "no image `x` on this worker");
  const auto no_image = unwalled();
  CHECK(no_image.status == 409);
  CHECK(no_image.error() == "image_not_found");
}

// Complaint 16: a conflict tells that another tenant has the name.
TEST_CASE("a name and an idempotency key are free in each workspace, whoever else has them") {
  const House house;
  FakeWorker::Options options;
  options.join_token = house.join_token(house.operator_key(), R"({"workspace": ""})");
  const auto worker = house.worker(options);
  const std::string rival = house.make_workspace("rival");
  const std::map<std::string, std::string> key = {{"Idempotency-Key", "k"}};
  const auto absent = house.call("GET", "/v1/sandboxes/build", {}, rival);
  CHECK(absent.status == 404);
  const auto ours = house.create(R"("name": "build")", "<owner>", key);
  REQUIRE(ours.status == 201);
  CHECK(house.call("GET", "/v1/sandboxes/build", {}, rival).text == absent.text);
  // Another spec: in one workspace this would be two conflicts.
  const auto theirs = house.create(R"("name": "build", "memory_mb": 600)", rival, key);
  REQUIRE(theirs.status == 201);
  CHECK(id_of(theirs) != id_of(ours));
  CHECK(id_of(house.get("build")) == id_of(ours));
  CHECK(id_of(house.call("GET", "/v1/sandboxes/build", {}, rival)) == id_of(theirs));
  CHECK(house.call("DELETE", "/v1/sandboxes/build", {}, rival).status == 204);
  CHECK(house.state_of("build") == "running");
}

// Complaint 65: an id that exists is given back with another policy than was asked for.
TEST_CASE("a name that lives with another egress policy is refused, and what runs keeps its own") {
  const House house;
  const auto worker = house.worker();
  const auto ask = [&](const std::string& egress) {
    return house.call("POST", "/v1/sandboxes",
                      R"({"image": "x", "name": "build", "egress": )" + egress + "}");
  };
  const std::string policy = R"({"allowed_domains": ["a.test", "b.test"]})";
  const auto made = ask(policy);
  REQUIRE(made.status == 201);
  for (const char* other :
       {R"({"allowed_domains": ["a.test"]})", R"({"allowed_domains": []})", "null",
        R"({"allowed_domains": ["a.test", "b.test"], "allowed_networks": ["10.0.0.0/8"]})"}) {
    CAPTURE(other);
    const auto refused = ask(other);
    CHECK(refused.status == 409);
    CHECK(refused.error() == "spec_mismatch");
    CHECK(refused.body.text("sandbox") == id_of(made));
  }
  CHECK(id_of(ask(policy)) == id_of(made));
  CHECK(house.get("build").body.text("policy_hash") == made.body.text("policy_hash"));
  CHECK(worker->orders().size() == 1);
}
