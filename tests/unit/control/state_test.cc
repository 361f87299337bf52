#include "sandboxkit/audit.h"

#include "store/store.h"
#include "tests/unit/control/house.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 0777;
}

}  // namespace

TEST_CASE("nobody else can read the state of a controller") {
  const House house;
  CHECK(mode_of(house.folder() + "/state") == 0700);
  for (const auto& entry : std::filesystem::directory_iterator(house.folder() + "/state")) {
    CAPTURE(entry.path().string());
    CHECK((mode_of(entry.path().string()) & 0077) == 0);
  }
  CHECK(mode_of(house.folder() + "/state/operator.key") == 0600);
}

TEST_CASE("a second controller does not take the state of one that runs") {
  const House house;
  NoEvents events;
  const auto second =
      Controller::create(ControllerConfig{house.folder() + "/state"}, system_clock(), events);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kUnavailable);
  CHECK(second.error().field == "state_dir");
}

TEST_CASE("a bad option is refused by its name") {
  const House house;
  NoEvents events;
  const std::vector<std::pair<std::string, ControllerConfig>> bad = [&] {
    std::vector<std::pair<std::string, ControllerConfig>> cases;
    const auto add = [&](const char* field, auto change) {
      ControllerConfig config{house.folder() + "/other"};
      config.port = 0;
      change(config);
      cases.emplace_back(field, config);
    };
    add("state_dir", [](ControllerConfig& config) { config.state_dir.clear(); });
    add("api_threads", [](ControllerConfig& config) { config.api_threads = 0; });
    add("create_wait", [](ControllerConfig& config) { config.create_wait = {}; });
    add("lost_after", [](ControllerConfig& config) { config.lost_after = {}; });
    add("max_sandboxes_per_workspace",
        [](ControllerConfig& config) { config.max_sandboxes_per_workspace = -1; });
    return cases;
  }();
  for (const auto& [field, config] : bad) {
    const auto& shown = field;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    const auto made = Controller::create(config, system_clock(), events);
    REQUIRE_FALSE(made);
    CHECK(made.error().field == field);
  }
}

TEST_CASE("what changes something leaves its line in the audit log") {
  House house;
  {
    const auto worker = house.worker();
    const std::string id = house.create().body.text("id");
    CHECK(house.call("POST", "/v1/sandboxes", R"({"image": "x", "memory_mb": 16000000})").status ==
          409);
    house.call("POST", "/v1/sandboxes/" + id + "/timeout", R"({"timeout_seconds": 9})");
    house.call("DELETE", "/v1/sandboxes/" + id);
    house.call("POST", "/v1/keys", R"({"role": "member"})");
    house.call("DELETE", "/v1/workers/" + worker->id());
  }
  house.stop();
  auto store = store::open_sqlite(house.folder() + "/state/controller.db");
  REQUIRE(store);
  std::vector<std::string> actions;
  const Status read = (*store)->read([&](store::Tx& tx) -> Status {
    auto rows = tx.audit("acme", 0, 100);
    if (!rows) {
      return rows.error();
    }
    for (const store::AuditRow& row : *rows) {
      actions.push_back(row.action);
      CHECK_FALSE(row.actor.empty());
      CHECK_FALSE(row.target.empty());
      CHECK(row.address == "127.0.0.1");
    }
    return {};
  });
  CHECK(read);
  CHECK(actions == std::vector<std::string>{"join_token.mint", "worker.join", "sandbox.create",
                                            "sandbox.renew", "sandbox.delete", "key.mint",
                                            "worker.remove"});
}

TEST_CASE("the API describes itself and its health without a credential") {
  const House house;
  CHECK(house.call("GET", "/healthz", {}, "none").status == 200);
  const auto document = house.call("GET", "/openapi.json", {}, "none");
  CHECK(document.status == 200);
  CHECK(document.body.text("openapi").starts_with("3."));
}

namespace {

std::vector<std::string> lines_of(const Answer& answer) {
  std::vector<std::string> lines;
  REQUIRE(answer.status == 200);
  for (const json::Value& line : *answer.body.find("audit")->as_array()) {
    lines.push_back(line.text("action") + " " + line.text("outcome"));
  }
  return lines;
}

std::size_t count_of(const std::vector<std::string>& lines, const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count(lines, line));
}

}  // namespace

// Complaint 15: the platform needs a credential of its own, not a tenant.
TEST_CASE("an owner reads the lines of the workspace, the operator those of none, page by page") {
  const House house;
  const std::string rival = house.make_workspace("rival");
  house.join_token();
  house.call("POST", "/v1/keys", R"({"role": "member"})");
  CHECK(lines_of(house.call("GET", "/v1/audit")) ==
        std::vector<std::string>{"join_token.mint done", "key.mint done"});
  CHECK(lines_of(house.call("GET", "/v1/audit", {}, rival)).empty());
  const auto first = house.call("GET", "/v1/audit?limit=1");
  CHECK(lines_of(first) == std::vector<std::string>{"join_token.mint done"});
  const std::string next = first.body.text("next");
  const auto second = house.call("GET", "/v1/audit?limit=1&after=" + next);
  CHECK(lines_of(second) == std::vector<std::string>{"key.mint done"});
  CHECK(second.body.find("next")->is_null());
  CHECK(lines_of(house.call("GET", "/v1/audit", {}, house.operator_key())) ==
        std::vector<std::string>{"workspace.create done", "workspace.create done"});
  // Another workspace's line is no place to go on from.
  CHECK(house.call("GET", "/v1/audit?after=" + next, {}, rival).body.text("field") == "after");
  CHECK(house.call("GET", "/v1/audit?limit=0").body.text("field") == "limit");
}

TEST_CASE("a flood of refusals becomes two lines of the audit log") {
  House house([](ControllerConfig& config) { config.max_sandboxes_per_workspace = 0; });
  const auto member = house.call("POST", "/v1/keys", R"({"role": "member"})").body.text("key");
  for (int i = 0; i < 20; ++i) {
    CHECK(house.call("GET", "/v1/keys", {}, member).status == 403);
    CHECK(house.call("GET", "/v1/keys", {}, "nonsense").status == 401);
  }
  CHECK(house.create().error() == "concurrency_limit");
  CHECK(House::eventually([&] {
    const auto lines = lines_of(house.call("GET", "/v1/audit"));
    return count_of(lines, "key.list owner_required") == 1 &&
           count_of(lines, "sandbox.create concurrency_limit") == 1;
  }));
  house.restart();
  const auto lines = lines_of(house.call("GET", "/v1/audit"));
  CHECK(count_of(lines, "key.list owner_required, 19 more within a minute") == 1);
  CHECK(lines.size() == 4);  // And the mint of the key.
  const auto check = verify_audit(house.folder() + "/state");
  REQUIRE(check);
  CHECK(check->problem == "");
}
