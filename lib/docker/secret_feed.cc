#include "docker/secret_feed.h"

#include "base/guarded.h"
#include "docker/helper_call.h"
#include "egress/secret_text.h"
#include "io/http_client.h"

#include <chrono>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr const char* kPath = "/secrets";
constexpr std::chrono::milliseconds kTimeout{5000};
constexpr io::EventLoop::Duration kPause{1000};

class FeedImpl final : public SecretFeed, public std::enable_shared_from_this<FeedImpl> {
 public:
  FeedImpl(LinkHub& hub, std::shared_ptr<HelperLink> proxy)
      : loop_(hub.loop()), proxy_(std::move(proxy)) {}

  void start() {
    proxy_->on_up([weak = weak_from_this()] {
      if (const auto alive = weak.lock()) {
        alive->send_again();
      }
    });
  }

  Status put(std::string order) override {
    order_.with([&](egress::SecretText& kept) { kept = egress::SecretText(order); });
    Status done = send_now(order);
    egress::wipe(order);
    return done;
  }

 private:
  Status send_now(const std::string& order) {
    auto connection = proxy_->connect();
    if (!connection) {
      return connection.error();
    }
    const auto reply = call_helper(std::move(*connection),
                                   {.path = kPath, .json_body = order, .method = "PUT"}, kTimeout);
    if (!reply) {
      return reply.error();
    }
    if (reply->status < 200 || reply->status >= 300) {
      // Its words name a field and no value.
      return Error{ErrorCode::kConflict, "the egress proxy takes no such secrets: " + reply->body,
                   "worker_capability_unavailable", "secrets"};
    }
    return {};
  }

  /// On the hub's thread, so without waiting.
  void send_again() {
    const std::string order =
        order_.with([](egress::SecretText& kept) { return std::string(kept.view()); });
    if (order.empty()) {
      return;
    }
    auto connection = proxy_->connect();
    if (!connection) {
      return;  // Down again: it will come up.
    }
    wire::RequestHead head{.method = "PUT", .target = kPath};
    head.headers.add("Host", "helper");
    head.headers.add("Connection", "close");
    head.headers.add("Content-Type", "application/json");
    head.headers.add("Content-Length", std::to_string(order.size()));
    const auto again = [weak = weak_from_this()] {
      if (const auto alive = weak.lock()) {
        alive->try_later();
      }
    };
    // The call keeps itself until it is over.
    const auto call = io::HttpClientCall::start(loop_, std::move(*connection), head,
                                                {.on_error = [again](const Error&) { again(); }});
    call->write_body(order);
    call->end_body();
  }

  void try_later() {
    loop_.cancel(timer_);
    timer_ = loop_.run_after(kPause, [weak = weak_from_this()] {
      if (const auto alive = weak.lock()) {
        alive->send_again();
      }
    });
  }

  io::EventLoop& loop_;
  // Shared with the sandbox's other users.
  const std::shared_ptr<HelperLink> proxy_;
  Guarded<egress::SecretText> order_;
  io::EventLoop::TimerId timer_ = 0;  // The hub's thread alone.
};

}  // namespace

std::shared_ptr<SecretFeed> SecretFeed::start(LinkHub& hub, std::shared_ptr<HelperLink> proxy) {
  auto feed = std::make_shared<FeedImpl>(hub, std::move(proxy));
  feed->start();
  return feed;
}

}  // namespace sandboxkit::docker
