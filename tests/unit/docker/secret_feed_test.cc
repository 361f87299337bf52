#include "docker/secret_feed.h"

#include "docker/helper_call.h"
#include "wire/http.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

namespace {

/// A proxy that notes what it is sent and answers with one status.
class FakeProxy final : public HelperLink {
 public:
  explicit FakeProxy(LinkHub& hub) : hub_(hub) {}
  ~FakeProxy() override {
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void expect_pid(pid_t /*pid*/) override {}
  bool ready() const override { return up; }
  bool wait_ready(std::chrono::milliseconds /*limit*/, std::stop_token /*stop*/) override {
    return up;
  }
  Result<io::Fd> connect() override {
    std::array<int, 2> ends{};
    if (!up || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return Error{ErrorCode::kUnavailable, "down", "guest_unavailable"};
    }
    const std::lock_guard lock(mutex_);
    threads_.emplace_back([this, fd = ends[1]] { serve(io::Fd(fd)); });
    return io::Fd(ends[0]);
  }
  void on_up(std::function<void()> handler) override { handler_ = std::move(handler); }
  void close() override {}

  void come_up() {
    up = true;
    hub_.run([this] { handler_(); });
  }
  /// Waits for the next whole request.
  std::string next() {
    std::unique_lock lock(mutex_);
    REQUIRE(came_.wait_for(lock, std::chrono::seconds(5), [this] { return !bodies_.empty(); }));
    std::string body = bodies_.front();
    bodies_.erase(bodies_.begin());
    return body;
  }

  std::atomic<bool> up = true;
  std::atomic<int> status = 204;

 private:
  void serve(io::Fd fd) {
    const timeval limit{5, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string text;
    std::array<char, 4096> buffer{};
    std::size_t whole = 0;
    while (whole == 0 || text.size() < whole) {
      const ssize_t got = recv(fd.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        return;
      }
      text.append(buffer.data(), static_cast<std::size_t>(got));
      if (const std::size_t head = wire::find_head_end(text); whole == 0 && head > 0) {
        whole = head + wire::parse_request_head(text.substr(0, head)).value().body.length;
      }
    }
    const std::string answer = "HTTP/1.1 " + std::to_string(status) +
                               " x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    const std::lock_guard lock(mutex_);
    bodies_.push_back(text.substr(0, text.find(' ')) + " " +
                      text.substr(wire::find_head_end(text)));
    came_.notify_all();
  }

  LinkHub& hub_;
  std::function<void()> handler_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> bodies_;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("a proxy gets its secrets at once, and again whenever it comes up anew") {
  LinkHub hub;
  const auto proxy = std::make_shared<FakeProxy>(hub);
  const auto feed = SecretFeed::start(hub, proxy);
  REQUIRE(feed->put("first"));
  CHECK(proxy->next() == "PUT first");
  proxy->come_up();
  CHECK(proxy->next() == "PUT first");
  REQUIRE(feed->put("second"));
  CHECK(proxy->next() == "PUT second");
  proxy->come_up();
  CHECK(proxy->next() == "PUT second");
}

TEST_CASE("an order larger than a socket's buffer arrives whole") {
  LinkHub hub;
  const auto proxy = std::make_shared<FakeProxy>(hub);
  const auto feed = SecretFeed::start(hub, proxy);
  const std::string large(1'500'000, 's');
  REQUIRE(feed->put(large));
  CHECK(proxy->next() == "PUT " + large);
  proxy->come_up();
  CHECK(proxy->next() == "PUT " + large);
}

TEST_CASE("secrets for a proxy that is down are kept until it comes up") {
  LinkHub hub;
  const auto proxy = std::make_shared<FakeProxy>(hub);
  const auto feed = SecretFeed::start(hub, proxy);
  proxy->up = false;
  CHECK(feed->put("kept").error().code == ErrorCode::kUnavailable);
  proxy->come_up();
  CHECK(proxy->next() == "PUT kept");
}

TEST_CASE("a proxy that refuses an order is told of as a missing capability") {
  LinkHub hub;
  const auto proxy = std::make_shared<FakeProxy>(hub);
  const auto feed = SecretFeed::start(hub, proxy);
  proxy->status = 409;
  CHECK(reason_of(feed->put("order").error()) == "worker_capability_unavailable");
}
