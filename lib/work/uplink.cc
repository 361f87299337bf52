#include "work/uplink.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::work {
namespace {

/// A tunnel that stood this long was a good one: the next try is the first again.
constexpr std::chrono::seconds kGoodTunnel{10};

}  // namespace

Uplink::Uplink(io::EventLoop& loop, std::function<net::TunnelDial()> dial, Random& random,
               EventSink& events, RequestHandler on_request, std::function<void()> on_up)
    : loop_(loop),
      dial_(std::move(dial)),
      random_(random),
      events_(events),
      on_request_(std::move(on_request)),
      on_up_(std::move(on_up)) {}

void Uplink::start() { dial(); }

void Uplink::stop() {
  stopped_ = true;
  loop_.cancel(timer_);
  if (const auto tunnel = std::exchange(tunnel_, nullptr)) {
    tunnel->close(std::chrono::milliseconds(0));
  }
}

void Uplink::dial() {
  net::dial_tunnel(loop_, dial_(),
                   [this](Result<std::shared_ptr<io::Socket>> socket, const std::string& early) {
                     if (stopped_) {
                       return;
                     }
                     socket ? connected(std::move(*socket), early) : lost(socket.error());
                   });
}

void Uplink::connected(std::shared_ptr<io::Socket> socket, const std::string& early) {
  up_since_ = std::chrono::steady_clock::now();
  last_problem_.clear();
  tunnel_ = net::TunnelServer::start(loop_, std::move(socket), early, {}, on_request_,
                                     [this](const Error& error) {
                                       // Not from inside of its own callback.
                                       loop_.post([old = std::exchange(tunnel_, nullptr)] {});
                                       lost(error);
                                     });
  events_.tell(Event{Severity::kInfo, "tunnel_up", "the tunnel to the controller stands"});
  on_up_();
}

void Uplink::lost(const Error& error) {
  if (stopped_) {
    return;
  }
  if (up_since_ != std::chrono::steady_clock::time_point{} &&
      std::chrono::steady_clock::now() - up_since_ >= kGoodTunnel) {
    attempt_ = 0;
  }
  up_since_ = {};
  // The same problem every few seconds is told once.
  if (error.message != last_problem_) {
    last_problem_ = error.message;
    const bool refused =
        error.code == ErrorCode::kUnauthenticated || error.code == ErrorCode::kPermissionDenied;
    events_.tell(Event{refused ? Severity::kError : Severity::kWarning,
                       "tunnel_down",
                       error.message,
                       {{"reason", reason_of(error)}}});
  }
  try_later();
}

std::chrono::milliseconds Uplink::longest_wait(unsigned attempt) {
  const unsigned doublings = std::min(attempt, 10U);
  return std::min(kFirstWait * (1U << doublings), kLongestWait);
}

void Uplink::try_later() {
  const auto longest = static_cast<std::uint64_t>(longest_wait(attempt_++).count());
  const auto wait = std::chrono::milliseconds(random_.next_u64() % (longest + 1));
  timer_ = loop_.run_after(wait, [this] { dial(); });
}

}  // namespace sandboxkit::work
