#pragma once

#include "base/thread_pool.h"
#include "net/tunnel.h"
#include "work/guest_proxy.h"
#include "work/orders.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::work {

/// What the controller may ask over the tunnel (docs/architecture.md, section 4).
/// Thread-safety: the loop's thread.
class Routes {
 public:
  Routes(io::EventLoop& loop, Orders& orders, GuestProxy& guests, Driver& driver,
         ThreadPool& others)
      : loop_(loop), orders_(orders), guests_(guests), driver_(driver), others_(others) {}

  void serve(const std::shared_ptr<net::TunnelExchange>& exchange);

 private:
  using Exchange = std::shared_ptr<net::TunnelExchange>;
  void inventory(const Exchange& exchange);
  void approvals(const Exchange& exchange);
  void answer_approval(const Exchange& exchange);
  void deliver(const Exchange& exchange);
  void sandbox(const Exchange& exchange, std::string_view rest);
  void stats(const Exchange& exchange, const SandboxId& sandbox);
  void denied(const Exchange& exchange, const SandboxId& sandbox);
  /// Asks the driver on another thread and answers with what `ask` made of it.
  void ask(const Exchange& exchange, std::function<Result<std::string>()> question);

  io::EventLoop& loop_;
  Orders& orders_;
  GuestProxy& guests_;
  Driver& driver_;
  ThreadPool& others_;
};

}  // namespace sandboxkit::work
