// The isolation card as the API gives it: docs/isolation-card.md.
#include "tests/unit/control/house.h"
#include "tests/unit/store/temporary_folder.h"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

constexpr const char* kValue = "s3cret-value-that-nobody-may-find";
constexpr const char* kVariable = "value-of-a-variable";
constexpr const char* kWalled = R"("egress": {"allowed_domains": ["a.test", "*.b.test"]})";

std::string key_file(const TemporaryFolder& folder) {
  const std::string path = folder.file("secrets");
  std::ofstream(path, std::ios::binary) << std::string(32, 'k');
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

std::string made(const House& house, const std::string& members) {
  const auto answer = house.call("POST", "/v1/sandboxes", R"({"image": "x", )" + members + "}");
  CAPTURE(answer.text);
  REQUIRE(answer.status == 201);
  return answer.body.text("id");
}

Answer card_of(const House& house, const std::string& id, const std::string& key = "<owner>") {
  return house.call("GET", "/v1/sandboxes/" + id + "/isolation", {}, key);
}

std::vector<json::Value> lines_of(const Answer& card, const std::string& topic) {
  CAPTURE(card.text);
  REQUIRE(card.status == 200);
  std::vector<json::Value> found;
  for (const json::Value& line : *card.body.find("lines")->as_array()) {
    if (line.text("topic") == topic) {
      found.push_back(line);
    }
  }
  return found;
}

/// The first line of a topic.
json::Value line_of(const Answer& card, const std::string& topic) {
  const auto lines = lines_of(card, topic);
  REQUIRE_FALSE(lines.empty());
  return lines.front();
}

bool says(const Answer& card, const std::string& text) {
  return card.text.find(text) != std::string::npos;
}

/// A worker that reads its walls back from its engine.
std::unique_ptr<FakeWorker> proving_worker(const House& house) {
  FakeWorker::Options options;
  options.capabilities = {"egress", "egress.isolated-ns", "secrets"};
  return house.worker(options);
}

void tell_structure(FakeWorker& worker, const std::string& id) {
  worker.change(id, [](auto& held) { held.structure = "isolated-ns"; });
  REQUIRE(worker.heartbeat() == 200);
}

}  // namespace

TEST_CASE("the card of an unwalled sandbox says that it has no wall") {
  const House house;
  const auto worker = house.worker();
  const auto card = card_of(house, made(house, R"("egress": null)"));
  CHECK(line_of(card, "reach").text("statement").starts_with("It has no wall"));
  CHECK(lines_of(card, "wall").empty());
  CHECK(line_of(card, "root").find("details")->text("profile") == "hardened");
  CHECK(card.body.text("state") == "running");
  CHECK(card.body.text("worker") == worker->id());
}

TEST_CASE("a wall is declared until its worker reported it, and structural from then on") {
  const House house;
  const auto worker = proving_worker(house);
  const std::string id = made(house, kWalled);
  CHECK(line_of(card_of(house, id), "wall").text("known") == "declared");
  tell_structure(*worker, id);
  const auto card = card_of(house, id);
  const auto walls = lines_of(card, "wall");
  REQUIRE(walls.size() == 2);
  CHECK(walls[0].text("known") == "structural");
  CHECK_FALSE(walls[0].text("at").empty());
  CHECK(walls[1].text("known") == "probed");
  CHECK(walls[1].find("at") == nullptr);
  CHECK(says(card, "A name under *.b.test"));
}

TEST_CASE("a worker that complains of its engine gives no time for what it read before") {
  const House house;
  const auto worker = proving_worker(house);
  const std::string id = made(house, kWalled);
  tell_structure(*worker, id);
  worker->complain("its engine does not answer");
  REQUIRE(worker->heartbeat() == 200);
  const json::Value wall = line_of(card_of(house, id), "wall");
  CHECK(wall.text("known") == "structural");
  CHECK(wall.find("at") == nullptr);
}

TEST_CASE("a narrowing is on the card as in force only once the worker said so") {
  const House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  const std::string path = "/v1/sandboxes/" + id + "/egress";
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  REQUIRE(house.call("PUT", path, R"({"allowed_domains": ["a.test"], "apply": "now"})").status ==
          202);
  const auto before = card_of(house, id);
  CHECK(json::dump(*line_of(before, "reach").find("details")->find("allowed_domains")) ==
        R"(["a.test","*.b.test"])");
  CHECK(says(before, "count on the wider policy"));
  worker->connect();
  REQUIRE(
      House::eventually([&] { return !says(card_of(house, id), "count on the wider policy"); }));
  const json::Value details = *line_of(card_of(house, id), "reach").find("details");
  CHECK(json::dump(*details.find("allowed_domains")) == R"(["a.test"])");
  CHECK(details.text("policy_hash") == house.get(id).body.text("policy_hash"));
}

TEST_CASE("lent secrets and variables are on the card by name, and no value of theirs") {
  const TemporaryFolder folder;
  const House house([&](ControllerConfig& config) { config.secrets_key_file = key_file(folder); });
  const auto worker = house.worker();
  const std::string id = made(
      house, std::string(R"("egress": {"allowed_domains": ["api.test"]}, "env": {"PASSWORD": ")") +
                 kVariable +
                 R"("}, "secrets": [{"name": "TOKEN", "domain": "api.test", "header": "X-Key",
                     "value_from": {"value": ")" +
                 kValue + R"("}, "expires_at": "2999-01-01T00:00:00.000Z"}])");
  const auto card = card_of(house, id);
  const json::Value lent = *line_of(card, "secrets").find("details");
  CHECK(lent.text("name") == "TOKEN");
  CHECK(lent.text("domain") == "api.test");
  CHECK(lent.text("expires_at") == "2999-01-01T00:00:00.000Z");
  CHECK(says(card, "PASSWORD"));
  CHECK_FALSE(says(card, kValue));
  CHECK_FALSE(says(card, kVariable));
  REQUIRE(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
  const auto after = card_of(house, id);
  CHECK(says(after, "no longer recorded"));
  CHECK_FALSE(says(after, "TOKEN"));
}

TEST_CASE("a sandbox that ended still has its card, which says how it ended") {
  const House house;
  const auto worker = proving_worker(house);
  const std::string id = made(house, kWalled);
  tell_structure(*worker, id);
  worker->end(id, "timeout");
  REQUIRE(worker->heartbeat() == 200);
  const auto card = card_of(house, id);
  CHECK(card.body.text("state") == "stopped");
  CHECK(line_of(card, "end").text("statement").find("(timeout)") != std::string::npos);
  CHECK(line_of(card, "reach").text("statement").starts_with("While it ran: "));
  CHECK(line_of(card, "wall").find("at") == nullptr);
}

TEST_CASE("a sandbox that never started has a card, and a worker that is gone is left out of it") {
  const House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const std::string id =
      house.call("POST", "/v1/sandboxes?wait=false", R"({"image": "x", "egress": null})")
          .body.text("id");
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  CHECK(says(card_of(house, id), "Its worker runs sandboxes of this workspace alone"));
  REQUIRE(house.call("DELETE", "/v1/workers/" + worker->id()).status == 204);
  const auto card = card_of(house, id);
  CHECK(card.status == 200);
  CHECK_FALSE(says(card, "Its worker runs sandboxes"));
}

TEST_CASE("owners see which tokens open a sandbox; who holds one sees no others") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, R"("egress": null)");
  const std::string path = "/v1/sandboxes/" + id + "/tokens";
  const auto kept = house.call("POST", path, "{}").body;
  const auto passing = house.call("POST", path, R"({"ttl_seconds": 1})").body;
  const auto tokens = [&](const std::string& key) {
    const json::Value details = *line_of(card_of(house, id, key), "access").find("details");
    const json::Value* list = details.find("tokens");
    return list == nullptr ? std::string("none") : json::dump(*list);
  };
  house.advance(std::chrono::seconds(2));
  CHECK(tokens("<owner>") == "[\"" + kept.text("id") + "\"]");
  CHECK(tokens(kept.text("token")) == "none");
}

TEST_CASE("the card of another workspace's sandbox is not found, like one of none") {
  const House house;
  const auto worker = house.worker();
  const std::string id = made(house, R"("egress": null)");
  const std::string rival = house.make_workspace("rival");
  const auto foreign = card_of(house, id, rival);
  const auto absent = card_of(house, "i00000000000000000000", rival);
  CHECK(foreign.status == 404);
  CHECK(foreign.error() == "sandbox_not_found");
  CHECK(foreign.text == absent.text);
}
