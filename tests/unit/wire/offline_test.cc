#include "sandboxkit/offline.h"

#include "json/value.h"
#include "wire/fleet.h"

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr const char* kCreate = R"({"tenant": "acme", "image": "base"})";

std::vector<OfflineDecision> place(const std::string& fleet, const std::string& create,
                                   std::size_t repeat = 1) {
  auto decisions = place_offline({.fleet = fleet, .create = create, .repeat = repeat});
  REQUIRE_MESSAGE(decisions.has_value(), decisions.error().message);
  return std::move(*decisions);
}

Error refusal_of(const std::string& fleet, const std::string& create) {
  auto decisions = place_offline({.fleet = fleet, .create = create});
  REQUIRE_FALSE(decisions.has_value());
  return decisions.error();
}

json::Value parsed(const std::string& text) {
  auto value = json::parse(text);
  REQUIRE(value.has_value());
  return std::move(*value);
}

}  // namespace

TEST_CASE("a worker with nothing but id and workspace has the documented defaults") {
  const auto fleet = wire::parse_fleet(R"({"workers": [{"id": "w-1", "workspace": ""}]})");
  REQUIRE(fleet.has_value());
  CHECK(fleet->seed == 1);
  CHECK(fleet->policy.cpu_overcommit == 4);
  CHECK(fleet->policy.memory_overcommit == 1);
  REQUIRE(fleet->workers.size() == 1);
  const WorkerView& worker = fleet->workers[0];
  CHECK(worker.scope.is_unscoped());
  CHECK(worker.state == WorkerState::kReady);
  CHECK(worker.runtimes == std::set<std::string>{"runc"});
  CHECK(worker.arch == "amd64");
  CHECK(worker.max_sandboxes == 100);
  CHECK(worker.max_starting == 4);
}

TEST_CASE("every member of a fleet document is read") {
  const auto fleet = wire::parse_fleet(
      R"({"workers": [{"id": "w-1", "workspace": "acme", "state": "draining",
          "capabilities": ["egress"], "labels": {"zone": "eu"}, "taints": ["night"], "runtimes": ["runsc"],
          "arch": "arm64", "cpu_cores": 2.5, "memory_mb": 2048, "used_cpu_cores": 0.5,
          "used_memory_mb": 256, "sandboxes": 3, "max_sandboxes": 9, "starting": 1,
          "max_starting": 2, "images": ["a"], "warm": {"a": 2}}],
          "overcommit": {"cpu": 2, "memory": 1.5}, "seed": 42})");
  REQUIRE_MESSAGE(fleet.has_value(), fleet.error().message);
  const WorkerView& worker = fleet->workers.at(0);
  CHECK(worker.scope.tenant_or_empty() == "acme");
  CHECK(worker.state == WorkerState::kDraining);
  CHECK(worker.capabilities == std::set<std::string>{"egress"});
  CHECK(worker.labels.at("zone") == "eu");
  CHECK(worker.runtimes == std::set<std::string>{"runsc"});
  CHECK(worker.taints == std::set<std::string>{"night"});
  CHECK(worker.arch == "arm64");
  CHECK(worker.cpu_cores == 2.5);
  CHECK(worker.memory_mb == 2048);
  CHECK(worker.used_cpu_cores == 0.5);
  CHECK(worker.used_memory_mb == 256);
  CHECK(worker.sandboxes == 3);
  CHECK(worker.max_sandboxes == 9);
  CHECK(worker.starting == 1);
  CHECK(worker.max_starting == 2);
  CHECK(worker.images == std::set<std::string>{"a"});
  CHECK(worker.warm.at("a") == 2);
  CHECK(fleet->policy.cpu_overcommit == 2);
  CHECK(fleet->policy.memory_overcommit == 1.5);
  CHECK(fleet->seed == 42);
}

TEST_CASE("a create may tolerate taints and a worker may say that it is unhealthy") {
  const auto create =
      wire::parse_placement_request(R"({"tenant": "acme", "tolerations": ["night"]})");
  REQUIRE(create.has_value());
  CHECK(create->tolerations == std::set<std::string>{"night"});
  const auto fleet =
      wire::parse_fleet(R"({"workers": [{"id": "w-1", "workspace": "", "state": "unhealthy"}]})");
  REQUIRE(fleet.has_value());
  CHECK(fleet->workers.at(0).state == WorkerState::kUnhealthy);
  CHECK(fleet->workers.at(0).taints.empty());
}

TEST_CASE("a document that says something else is refused with the path") {
  struct Row {
    const char* fleet;
    const char* create;
    const char* field;
  };
  const char* good = R"({"workers": []})";
  const std::vector<Row> rows = {
      {"[]", kCreate, ""},
      {"{}", kCreate, "workers"},
      {R"({"workers": {}})", kCreate, "workers"},
      {R"({"workers": [{"id": "w-1"}]})", kCreate, "workers[0].workspace"},
      {R"({"workers": [{"id": "w-1", "workspace": null}]})", kCreate, "workers[0].workspace"},
      {R"({"workers": [{"id": "w-1", "workspace": "a b"}]})", kCreate, "workers[0].workspace"},
      {R"({"workers": [{"workspace": ""}]})", kCreate, "workers[0].id"},
      {R"({"workers": [{"id": "w", "workspace": ""}, {"id": "w", "workspace": ""}]})", kCreate,
       "workers[1].id"},
      {R"({"workers": [{"id": "w", "workspace": "", "tenant": "x"}]})", kCreate,
       "workers[0].tenant"},
      {R"({"workers": [{"id": "w", "workspace": "", "state": "up"}]})", kCreate,
       "workers[0].state"},
      {R"({"workers": [{"id": "w", "workspace": "", "sandboxes": -1}]})", kCreate,
       "workers[0].sandboxes"},
      {R"({"workers": [{"id": "w", "workspace": "", "cpu_cores": "4"}]})", kCreate,
       "workers[0].cpu_cores"},
      {R"({"workers": [{"id": "w", "workspace": "", "warm": {"a": 1.5}}]})", kCreate,
       "workers[0].warm.a"},
      {R"({"workers": [], "overcommit": {"gpu": 1}})", kCreate, "overcommit.gpu"},
      {R"({"workers": [], "overcommit": {"cpu": 0}})", kCreate, "overcommit.cpu"},
      {R"({"workers": [], "sede": 1})", kCreate, "sede"},
      {good, "{}", "tenant"},
      {good, R"({"tenant": ""})", "tenant"},
      {good, R"({"tenant": "a", "cpu_cores": 0})", "cpu_cores"},
      {good, R"({"tenant": "a", "memory_mb": 1})", "memory_mb"},
      {good, R"({"tenant": "a", "policy": "best"})", "policy"},
      {good, R"({"tenant": "a", "gpu": 1})", "gpu"},
      {good, R"({"tenant": "a", "egress": []})", "egress"},
      {good, R"({"tenant": "a", "egress": {"allow": []}})", "egress.allow"},
      {good, R"({"tenant": "a", "egress": {"allowed_domains": ["*"]}})",
       "egress.allowed_domains[0]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.fleet);
    CAPTURE(row.create);
    CHECK(refusal_of(row.fleet, row.create).field == row.field);
  }
}

TEST_CASE("a placement is one object with the worker and the scores") {
  const auto decisions = place(R"({"workers": [{"id": "w-1", "workspace": ""}]})", kCreate);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].allowed);
  CHECK(decisions[0].json ==
        R"({"placement":{"worker":"w-1"},"scores":[{"worker":"w-1","own":false,"warm":false,)"
        R"("image_present":false,"load":0.5,"total":0.5}]})");
}

TEST_CASE("a refusal is one object with error, code, counts and retry_after") {
  CHECK(place(R"({"workers": [{"id": "w-1", "workspace": "", "state": "cordoned"}]})", kCreate)[0]
            .json ==
        R"({"refusal":{"error":"no_capacity","code":503,"counts":{"state":1},"retry_after":5}})");
  CHECK(place(R"({"workers": [{"id": "w-1", "workspace": ""}]})",
              R"({"tenant": "acme", "egress": {"allowed_domains": []}})")[0]
            .json == R"({"refusal":{"error":"worker_capability_unavailable","code":409,)"
                     R"("counts":{"capability":1},"retry_after":null}})");
}

TEST_CASE("an egress of null needs no wall and an empty list does") {
  const std::string fleet = R"({"workers": [{"id": "w-1", "workspace": ""}]})";
  CHECK(place(fleet, R"({"tenant": "acme", "egress": null})")[0].allowed);
  CHECK_FALSE(place(fleet, R"({"tenant": "acme", "egress": {}})")[0].allowed);
}

TEST_CASE("each of a row of creates is placed on the fleet that the one before left") {
  const std::string fleet =
      R"({"workers": [{"id": "w-1", "workspace": "", "cpu_cores": 8, "memory_mb": 1500},
                      {"id": "w-2", "workspace": "", "cpu_cores": 8, "memory_mb": 1500}]})";
  const auto decisions = place(fleet, kCreate, 6);
  REQUIRE(decisions.size() == 6);
  int first = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(decisions[i].allowed);
    first += parsed(decisions[i].json).find("placement")->text("worker") == "w-1" ? 1 : 0;
  }
  CHECK(first == 2);
  CHECK_FALSE(decisions[4].allowed);
  CHECK(parsed(decisions[5].json).find("refusal")->find("counts")->integer("memory") == 2);
}

TEST_CASE("placing twice is placing once on what came out") {
  const auto fleet = [](const char* used) {
    std::string workers;
    for (int i = 0; i < 20; ++i) {
      workers +=
          std::string(i == 0 ? "" : ",") + R"({"id": "w-)" + std::to_string(i) +
          R"(", "workspace": "", "memory_mb": 100000, "cpu_cores": 64)" +
          (used == "w-" + std::to_string(i)
               ? R"(, "sandboxes": 1, "starting": 1, "used_cpu_cores": 1, "used_memory_mb": 512)"
               : "") +
          "}";
    }
    return R"({"workers": [)" + workers + R"(], "seed": 9})";
  };
  const auto row = place(fleet(""), kCreate, 2);
  const std::string first = parsed(row[0].json).find("placement")->text("worker");
  CHECK(place(fleet(first.c_str()), kCreate)[0].json == row[1].json);
}

TEST_CASE("a warm sandbox is used up by the placement that takes it") {
  const auto decisions =
      place(R"({"workers": [{"id": "w-1", "workspace": "", "warm": {"base": 1}}]})", kCreate, 2);
  CHECK(decisions[0].json.find(R"("warm":true)") != std::string::npos);
  CHECK(decisions[1].json.find(R"("warm":false)") != std::string::npos);
}

TEST_CASE("an egress question is answered with target, decision, rule and reason") {
  const auto policy = parse_egress_policy(R"({"allowed_domains": ["packages.test"]})");
  REQUIRE(policy.has_value());
  CHECK(check_egress_offline(*policy, {.target = "https://packages.test/x"}).json ==
        R"({"target":"https://packages.test/x","decision":"allow","rule":"packages.test",)"
        R"("reason":"allowed"})");
  const auto denied = check_egress_offline(*policy, {.target = "other.test:443"});
  CHECK_FALSE(denied.allowed);
  CHECK(parsed(denied.json).text("decision") == "deny");
  CHECK(parsed(denied.json).find("rule")->is_null());
  CHECK_FALSE(
      check_egress_offline(*policy, {.target = "packages.test:443", .resolved = "169.254.169.254"})
          .allowed);
}

TEST_CASE("a policy document with another member is refused") {
  CHECK(parse_egress_policy(R"({"allowed_domain": []})").error().field == "allowed_domain");
  CHECK(parse_egress_policy("not json").error().reason == "invalid_json");
  CHECK(parse_egress_policy("{}").has_value());
}
