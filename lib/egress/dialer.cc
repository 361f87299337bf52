#include "egress/dialer.h"

#include "base/text.h"
#include "io/socket.h"
#include "policy/egress_address.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace sandboxkit::egress {
namespace {

constexpr int kTooMany = 429;
constexpr int kBadGateway = 502;
constexpr int kGatewayTimeout = 504;
using Steady = std::chrono::steady_clock;

struct Candidate {
  IpAddress address;
  EgressVerdict verdict;
};

class DialImpl final : public Dial, public std::enable_shared_from_this<DialImpl> {
 public:
  DialImpl(Engine& engine, EgressTarget target, EgressVerdict verdict,
           std::function<void(Outcome)> on_done)
      : engine_(engine),
        target_(std::move(target)),
        verdict_(std::move(verdict)),
        on_done_(std::move(on_done)) {}

  void start() {
    if (target_.address()) {
      return judge({*target_.address()}, false);
    }
    if (const auto pinned = engine_.hosts.find(target_.host()); pinned != engine_.hosts.end()) {
      return judge({pinned->second}, true);
    }
    if (!engine_.lookups.take(engine_.limits.max_lookups_per_minute, Steady::now())) {
      return refuse_later({kTooMany, "too_many_lookups",
                           "This sandbox looks up too many names; try again in a minute."});
    }
    engine_.resolver.resolve(target_.host(), [self = shared_from_this()](auto answer) {
      self->on_resolved(std::move(answer));
    });
  }

  void cancel() override { on_done_ = nullptr; }

 private:
  void finish(Outcome outcome) {
    if (const auto once = std::exchange(on_done_, nullptr)) {
      once(std::move(outcome));
    }
  }

  /// From the loop, so that `start` never calls back before it returned.
  void refuse_later(Refusal refusal) {
    engine_.loop.post([self = shared_from_this(), refusal = std::move(refusal)]() mutable {
      self->finish(std::move(refusal));
    });
  }

  void on_resolved(Result<Resolver::Addresses> answer) {
    if (!on_done_) {
      return;
    }
    if (answer) {
      return judge(*answer, false);
    }
    const std::string what = quoted(target_.host());
    switch (answer.error().code) {
      case ErrorCode::kDeadlineExceeded:
        return finish(Refusal{kGatewayTimeout, "resolve_timeout",
                              what + " is allowed, but DNS gave no answer in time."});
      case ErrorCode::kResourceExhausted:
        return finish(Refusal{kTooMany, "too_many_lookups", "Too many names at once."});
      case ErrorCode::kNotFound:
        return finish(Refusal{kBadGateway, "name_not_found",
                              what + " is allowed, but DNS knows no address of it."});
      case ErrorCode::kInvalidArgument:
      case ErrorCode::kUnauthenticated:
      case ErrorCode::kPermissionDenied:
      case ErrorCode::kConflict:
      case ErrorCode::kTooLarge:
      case ErrorCode::kUnavailable:
      case ErrorCode::kCancelled:
      case ErrorCode::kInternal:
        break;
    }
    finish(Refusal{kBadGateway, "resolve_failed", what + " is allowed, but DNS failed."});
  }

  EgressVerdict judge_one(const IpAddress& address, bool pinned) {
    // A proxy on the worker's host may reach the host where the operator pinned a name to it, as a
    // sidecar may; a pin to loopback still means nothing.
    const bool loopback = policy::special_class(address) == "loopback";
    if (engine_.is_local(address) && (!pinned || loopback)) {
      return {false, EgressReason::kAddressClass, verdict_.rule};
    }
    // The operator stated this address, so its class is no surprise.
    return pinned ? verdict_ : engine_.policy.decide_address(target_, address);
  }

  void judge(const Resolver::Addresses& addresses, bool pinned) {
    std::optional<Candidate> refused;
    for (const IpAddress& address : addresses) {
      EgressVerdict verdict = judge_one(address, pinned);
      if (verdict.allowed) {
        candidates_.push_back({address, std::move(verdict)});
      } else if (!refused) {
        refused = Candidate{address, std::move(verdict)};
      }
    }
    if (candidates_.empty() && !refused) {
      return refuse_later({kBadGateway, "name_not_found",
                           quoted(target_.host()) + " is allowed, but has no address."});
    }
    if (candidates_.empty()) {
      return refuse_later(deny(engine_, target_, refused->verdict, refused->address.to_string()));
    }
    if (refused) {
      // A mixed answer: the good addresses are used, the attempt is on record.
      engine_.denied.add(target_, sandboxkit::name_of(refused->verdict.reason),
                         engine_.clock.now());
      log_decision(engine_, target_, false, refused->verdict, refused->address.to_string());
    }
    deadline_ = Steady::now() + engine_.limits.connect;
    try_next();
  }

  void try_next() {
    const auto left = std::chrono::floor<Limits::Ms>(deadline_ - Steady::now());
    if (next_ == candidates_.size() || left <= Limits::Ms{0}) {
      const bool late = last_error_ == ErrorCode::kDeadlineExceeded || left <= Limits::Ms{0};
      return refuse_later({late ? kGatewayTimeout : kBadGateway,
                           late ? "connect_timeout" : "connect_failed",
                           quoted(target_.to_string()) + " is allowed, but no connection to it "
                                                         "could be made."});
    }
    // A dead address leaves time for those after it.
    const auto share = left / static_cast<int>(candidates_.size() - next_);
    io::connect_tcp(
        engine_.loop, candidates_[next_].address.to_string(), target_.port(), share,
        [self = shared_from_this()](Result<io::Fd> fd) { self->on_connected(std::move(fd)); });
  }

  void on_connected(Result<io::Fd> fd) {
    if (!on_done_) {
      return;
    }
    if (fd) {
      Candidate& chosen = candidates_[next_];
      return finish(Dialled{*std::move(fd), chosen.address, std::move(chosen.verdict)});
    }
    last_error_ = fd.error().code;
    ++next_;
    try_next();
  }

  Engine& engine_;
  const EgressTarget target_;
  const EgressVerdict verdict_;
  std::function<void(Outcome)> on_done_;
  std::vector<Candidate> candidates_;
  std::size_t next_ = 0;
  ErrorCode last_error_ = ErrorCode::kUnavailable;
  Steady::time_point deadline_{};
};

}  // namespace

std::shared_ptr<Dial> Dial::start(Engine& engine, EgressTarget target, EgressVerdict verdict,
                                  std::function<void(Outcome)> on_done) {
  auto dial =
      std::make_shared<DialImpl>(engine, std::move(target), std::move(verdict), std::move(on_done));
  dial->start();
  return dial;
}

}  // namespace sandboxkit::egress
