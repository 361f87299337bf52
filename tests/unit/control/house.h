#pragma once

#include "sandboxkit/client.h"
#include "sandboxkit/clock.h"
#include "sandboxkit/controller.h"

#include "json/value.h"
#include "tests/unit/control/fake_worker.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

namespace sandboxkit::control {

/// The answer to one call of a test.
struct Answer {
  int status = 0;
  json::Value body{};
  std::string text{};
  std::map<std::string, std::string> headers{};
  std::string error() const { return body.text("error"); }
};

/// The machine's clock, ahead of it by what the test says.
class AdvancedClock final : public Clock {
 public:
  WallTime now() const override {
    return system_clock().now() + std::chrono::milliseconds(ahead_ms_.load());
  }
  void advance(std::chrono::milliseconds by) { ahead_ms_ += by.count(); }

 private:
  std::atomic<std::int64_t> ahead_ms_{0};
};

struct NoEvents final : EventSink {
  void tell(const Event&) override {}
};

/// A whole controller in a temporary folder, served by a thread, with a workspace `acme`.
class House {
 public:
  explicit House(std::function<void(ControllerConfig&)> change = {});
  ~House();

  /// Ends the controller and starts another one over the same folder, on the same port.
  void restart();
  void stop();
  /// Only of what is judged by the clock; timers run on.
  void advance(std::chrono::milliseconds by) { clock_.advance(by); }

  Answer call(const std::string& method, const std::string& target, const std::string& body = {},
              const std::string& key = "<owner>",
              std::map<std::string, std::string> headers = {}) const;
  /// A create of the plainest spec, with more members put in (`"name": "x"`).
  Answer create(const std::string& members = {}, const std::string& key = "<owner>",
                std::map<std::string, std::string> headers = {}) const;
  Answer get(const std::string& id) const { return call("GET", "/v1/sandboxes/" + id); }
  std::string state_of(const std::string& id) const { return get(id).body.text("state"); }

  std::string make_workspace(const std::string& id, const std::string& members = {}) const;
  std::string join_token(const std::string& key = "<owner>", const std::string& body = "{}") const;
  /// A worker that is connected and known to be ready.
  std::unique_ptr<FakeWorker> worker(FakeWorker::Options options = {}) const;
  /// Whether the API says that the worker may get work, within ten seconds.
  bool sees(const FakeWorker& worker, bool connected) const;
  /// Asks again and again until the fact holds; false after ten seconds.
  static bool eventually(const std::function<bool()>& fact);

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::uint16_t port() const { return port_; }
  std::uint16_t metrics_port() const { return controller_->metrics_port(); }
  std::string folder() const { return folder_; }
  const std::string& owner() const { return owner_; }
  const std::string& operator_key() const { return operator_; }

 private:
  void start();

  std::string folder_;
  std::function<void(ControllerConfig&)> change_;
  NoEvents events_;
  AdvancedClock clock_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Controller> controller_;
  std::thread thread_;
  std::string owner_;
  std::string operator_;
};

}  // namespace sandboxkit::control
