#include "tests/unit/control/house.h"
#include "tests/unit/store/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

constexpr const char* kValue = "s3cret-value-that-nobody-may-find";
constexpr const char* kNext = "s3cret-value-of-the-rotation";

std::string key_file(const TemporaryFolder& folder, char fill = 'k') {
  const std::string path = folder.file(std::string("secrets-") + fill);
  std::ofstream(path, std::ios::binary) << std::string(32, fill);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

std::string create_body(const std::string& value = kValue) {
  return R"({"image": "x", "egress": {"allowed_domains": ["api.test"]},
             "secrets": [{"name": "TOKEN", "domain": "api.test", "header": "Authorization",
                          "value_from": {"value": ")" +
         value + R"("}, "expires_at": "2999-01-01T00:00:00.000Z"}]})";
}

bool stands_in_files(const std::string& folder, const std::string& text) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    if (bytes.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::size_t count(const std::vector<std::string>& orders, const std::string& order) {
  std::size_t found = 0;
  for (const std::string& each : orders) {
    found += each == order ? 1 : 0;
  }
  return found;
}

}  // namespace

TEST_CASE("without a key's file a create that lends secrets is refused, naming the option") {
  House house;
  const auto worker = house.worker();
  const auto answer = house.call("POST", "/v1/sandboxes", create_body());
  CHECK(answer.status == 409);
  CHECK(answer.error() == "secrets_unavailable");
  CHECK(answer.text.find("secrets_key_file") != std::string::npos);
}

TEST_CASE("a worker that lends no secrets gets no sandbox with some") {
  const TemporaryFolder folder;
  House house([&](ControllerConfig& config) { config.secrets_key_file = key_file(folder); });
  FakeWorker::Options options;
  options.capabilities = {"egress"};
  const auto worker = house.worker(options);
  const auto answer = house.call("POST", "/v1/sandboxes", create_body());
  CHECK(answer.status == 409);
  CHECK(answer.error() == "worker_capability_unavailable");
  CHECK(answer.body.text("missing") == "secrets");
}

TEST_CASE("a lent secret reaches the worker, and no answer, log line or file holds its value") {
  const TemporaryFolder folder;
  House house([&](ControllerConfig& config) { config.secrets_key_file = key_file(folder); });
  const auto worker = house.worker();
  const auto made =
      house.call("POST", "/v1/sandboxes", create_body(), "<owner>", {{"Idempotency-Key", "once"}});
  REQUIRE(made.status == 201);
  const std::string id = made.body.text("id");
  REQUIRE(worker->sandbox(id)->secrets.size() == 1);
  CHECK(worker->sandbox(id)->secrets[0].value == kValue);
  const auto again =
      house.call("POST", "/v1/sandboxes", create_body(), "<owner>", {{"Idempotency-Key", "once"}});
  CHECK(again.body.text("id") == id);
  CHECK(house
            .call("POST", "/v1/sandboxes", create_body("other"), "<owner>",
                  {{"Idempotency-Key", "once"}})
            .error() == "idempotency_mismatch");
  const std::string path = "/v1/sandboxes/" + id;
  const auto listed = house.call("GET", path + "/secrets");
  CHECK(listed.status == 200);
  CHECK(listed.text.find(R"("name":"TOKEN","domain":"api.test","header":"Authorization")") !=
        std::string::npos);
  CHECK(listed.text.find("2999-01-01") != std::string::npos);
  const auto rotated = house.call("PUT", path + "/secrets/TOKEN",
                                  std::string(R"({"value_from": {"value": ")") + kNext + "\"}}");
  CHECK(rotated.status == 202);
  CHECK(worker->wait_until([&] { return worker->sandbox(id)->secrets[0].value == kNext; }));
  CHECK(worker->sandbox(id)->secrets[0].expires_at == WallTime{});
  std::string all = made.text + again.text + listed.text + rotated.text;
  for (const char* target : {"/v1/sandboxes", "/v1/audit?limit=500", "/v1/workers"}) {
    all += house.call("GET", target).text;
  }
  all += house.call("GET", path).text;
  for (const char* value : {kValue, kNext}) {
    CHECK(all.find(value) == std::string::npos);
    CHECK_FALSE(stands_in_files(house.folder(), value));
  }
  CHECK(all.find("sandbox.lend") != std::string::npos);
}

TEST_CASE("a worker that connects again is told the secrets of what it runs once more") {
  const TemporaryFolder folder;
  House house([&](ControllerConfig& config) { config.secrets_key_file = key_file(folder); });
  const auto worker = house.worker();
  const std::string id = house.call("POST", "/v1/sandboxes", create_body()).body.text("id");
  const std::string plain = house.create().body.text("id");
  worker->disconnect();
  worker->change(id, [](auto& held) { held.secrets.clear(); });
  house.restart();
  worker->connect();
  CHECK(worker->wait_until([&] {
    const auto held = worker->sandbox(id);
    return held && held->secrets.size() == 1 && held->secrets[0].value == kValue;
  }));
  CHECK(count(worker->orders(), "lend " + id) == 1);
  CHECK(count(worker->orders(), "lend " + plain) == 0);
}

TEST_CASE("a create whose secrets do not open any more ends with the reason and holds up nobody") {
  const TemporaryFolder folder;
  char fill = 'a';
  House house([&](ControllerConfig& config) { config.secrets_key_file = key_file(folder, fill); });
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const std::string id =
      house.call("POST", "/v1/sandboxes?wait=false", create_body()).body.text("id");
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  worker->disconnect();
  fill = 'b';
  house.restart();
  worker->release();
  worker->forget(id);
  worker->connect();
  REQUIRE(House::eventually([&] { return house.state_of(id) == "error"; }));
  CHECK(house.get(id).body.text("reason").starts_with("secrets_unavailable"));
  CHECK(house.create().status == 201);
}

TEST_CASE("a secret that was not lent is not found, and a sandbox's own token rotates nothing") {
  const TemporaryFolder folder;
  House house([&](ControllerConfig& config) { config.secrets_key_file = key_file(folder); });
  const auto worker = house.worker();
  const std::string id = house.call("POST", "/v1/sandboxes", create_body()).body.text("id");
  const std::string path = "/v1/sandboxes/" + id + "/secrets/";
  const std::string body = R"({"value_from": {"value": "v"}})";
  CHECK(house.call("PUT", path + "OTHER", body).error() == "secret_not_found");
  const std::string token =
      house.call("POST", "/v1/sandboxes/" + id + "/tokens", "{}").body.text("token");
  CHECK(house.call("PUT", path + "TOKEN", body, token).error() == "owner_required");
  CHECK(house.call("GET", "/v1/sandboxes/" + id + "/secrets", {}, token).status == 200);
  const auto faulty = house.call("PUT", path + "TOKEN", R"({"value_from": {"value": ""}})");
  CHECK(faulty.status == 400);
  CHECK(faulty.body.text("field") == "value_from.value");
}

TEST_CASE("a key's file that others may read keeps the controller from starting") {
  const TemporaryFolder folder;
  const std::string path = key_file(folder);
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  NoEvents events;
  ControllerConfig config{folder.file("state")};
  config.port = 0;
  config.secrets_key_file = path;
  const auto controller = Controller::create(config, system_clock(), events);
  REQUIRE_FALSE(controller);
  CHECK(controller.error().field == "secrets_key_file");
}
