#include "tests/unit/control/house.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include <doctest/doctest.h>
#include <unistd.h>

namespace sandboxkit::control {

House::House(std::function<void(ControllerConfig&)> change) : change_(std::move(change)) {
  std::string name =
      (std::filesystem::temp_directory_path() / "sandboxkit-control-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  folder_ = name;
  start();
  std::getline(std::ifstream(folder_ + "/state/operator.key"), operator_);
  owner_ = make_workspace("acme");
}

House::~House() {
  stop();
  std::filesystem::remove_all(folder_);
}

void House::start() {
  ControllerConfig config{folder_ + "/state"};
  config.port = port_;
  // Tests ask again and again, and try wrong credentials: what limits is the matter of its own.
  config.rate_limit_per_key = 0;
  config.failed_auth_per_minute = 0;
  config.shutdown_grace = std::chrono::milliseconds(200);
  if (change_) {
    change_(config);
  }
  auto made = Controller::create(config, clock_, events_);
  if (!made) {
    FAIL(made.error().message);
  }
  controller_ = std::move(*made);
  port_ = controller_->port();
  thread_ = std::thread([this] {
    const Status ignored = controller_->run();
    static_cast<void>(ignored);
  });
}

void House::stop() {
  if (controller_) {
    controller_->stop();
    thread_.join();
    controller_.reset();
  }
}

void House::restart() {
  stop();
  start();
}

Answer House::call(const std::string& method, const std::string& target, const std::string& body,
                   const std::string& key, std::map<std::string, std::string> headers) const {
  auto client = Client::create({url(), key == "<owner>" ? owner_ : key});
  if (!client) {
    return {0, {}, client.error().message};
  }
  ClientRequest request{method, target};
  request.body = body;
  request.headers = std::move(headers);
  request.timeout = std::chrono::seconds(30);
  auto answer = (*client)->call(request);
  if (!answer) {
    return {0, {}, answer.error().message};
  }
  auto parsed = json::parse(answer->body);
  return {answer->status, parsed ? std::move(*parsed) : json::Value(), answer->body,
          answer->headers};
}

Answer House::create(const std::string& members, const std::string& key,
                     std::map<std::string, std::string> headers) const {
  const std::string body = R"({"image": "sandboxkit/base", "egress": {"allowed_domains": []})" +
                           (members.empty() ? "" : ", " + members) + "}";
  return call("POST", "/v1/sandboxes", body, key, std::move(headers));
}

std::string House::make_workspace(const std::string& id, const std::string& members) const {
  const auto made =
      call("POST", "/v1/workspaces",
           R"({"id": ")" + id + "\"" + (members.empty() ? "" : ", " + members) + "}", operator_);
  CAPTURE(made.text);
  REQUIRE(made.status == 201);
  return made.body.text("key");
}

std::string House::join_token(const std::string& key, const std::string& body) const {
  const auto made = call("POST", "/v1/join-tokens", body, key);
  CAPTURE(made.text);
  REQUIRE(made.status == 201);
  return made.body.text("token");
}

std::unique_ptr<FakeWorker> House::worker(FakeWorker::Options options) const {
  options.url = url();
  if (options.join_token.empty()) {
    options.join_token = join_token();
  }
  auto made = std::make_unique<FakeWorker>(options);
  REQUIRE(made->start());
  REQUIRE(sees(*made, true));
  return made;
}

bool House::sees(const FakeWorker& worker, bool connected) const {
  return eventually([&] {
    const auto answer = call("GET", "/v1/workers/" + worker.id());
    const json::Value* told = answer.body.find("connected");
    return told != nullptr && told->as_bool() != nullptr && *told->as_bool() == connected;
  });
}

bool House::eventually(const std::function<bool()>& fact) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!fact()) {
    if (std::chrono::steady_clock::now() > limit) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

}  // namespace sandboxkit::control
