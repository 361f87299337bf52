#pragma once

#include "sandboxkit/agent_session.h"
#include "sandboxkit/gate.h"

#include "base/thread_pool.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/http_server.h"
#include "local/guest_call.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace sandboxkit::local {

/// What a front needs of its sandbox.
struct GateFrontParts {
  /// May wait for a person's answer; ends early when the caller is gone. Any thread.
  std::function<GateDecision(const GateRequest&, std::stop_token)> judge;
  /// Whether the box was made so that its guest can do this. Any thread.
  std::function<bool(const GateRequest&)> in_box;
  /// Judges and opens a file that the box does not show. Otherwise as `judge`.
  std::function<OpenOutcome(const OpenRequest&, std::stop_token)> open;
  /// A new connection to the guest in the box. On the loop's thread.
  std::function<Result<io::Fd>()> connect;
  GuestPlaces places;
};

/// Stands before the guest of a box: every call is judged by the permission gate before the guest
/// sees it, and what was not allowed never gets there. The box enforces the same answers again; the
/// front is what can ask, and tell why. A file outside of the box that a person
/// allowed is read or written here, by the descriptor that was judged.
///
/// Thread-safety: the loop's thread. Ownership: shared with the connections that it serves; loop
/// and pool outlive them.
class GateFront : public std::enable_shared_from_this<GateFront> {
 public:
  /// Calls of one sandbox that wait for the gate; more are refused, so that one that asks a lot
  /// keeps the others' turns free.
  static constexpr std::size_t kMaxJudged = 8;

  GateFront(io::EventLoop& loop, ThreadPool& pool, GateFrontParts parts)
      : loop_(loop), pool_(pool), parts_(std::move(parts)) {}

  void serve(io::Fd connection);

  using Exchange = std::shared_ptr<io::HttpExchange>;
  struct Waiting;

 private:
  void take(const Exchange& exchange);
  void read(const Exchange& exchange, std::optional<std::string> body);
  void judge(const std::shared_ptr<Waiting>& waiting);
  void judged(Waiting& waiting);
  void pass(Waiting& waiting);
  void serve_file(Waiting& waiting);

  io::EventLoop& loop_;
  ThreadPool& pool_;
  const GateFrontParts parts_;
  std::size_t judging_ = 0;
};

/// What the caller of a guest is told of a refusal: nothing of the rules, and what it may not see
/// does not exist. Source: design of the permission gate, 4.7. Pure.
Error refusal_of(const GateRequest& request, const GateDecision& decision);

}  // namespace sandboxkit::local
