#include "control/fleet.h"

#include "control/refusals.h"

#include <utility>

namespace sandboxkit::control {
namespace {

/// Collects one short answer. Keeps itself alive through the stream's handlers until it is done.
class ShortCall : public std::enable_shared_from_this<ShortCall> {
 public:
  ShortCall(io::EventLoop& loop, Fleet::Done done) : loop_(loop), done_(std::move(done)) {}

  void start(net::TunnelClient& tunnel, const Fleet::Call& call) {
    const auto self = shared_from_this();
    net::TunnelRequest request{call.method, call.path, {}, !call.body.empty()};
    if (request.has_body) {
      request.headers.add("Content-Type", "application/json");
    }
    wire::add_trace(request.headers, call.trace);
    net::TunnelHandlers handlers;
    handlers.on_head = [self](int status, const wire::Headers&) { self->answer_.status = status; };
    handlers.on_data = [self](std::string_view bytes) { self->take(bytes); };
    handlers.on_end = [self] { self->finish(std::move(self->answer_)); };
    handlers.on_error = [self](const Error& error) { self->finish(error); };
    auto stream = tunnel.open(request, std::move(handlers));
    if (!stream) {
      finish(worker_unreachable());
      return;
    }
    if (!done_) {
      return;  // It failed while it was opened.
    }
    stream_ = *stream;
    timer_ = loop_.run_after(call.timeout, [self] {
      self->timer_ = 0;
      self->cut(Error{ErrorCode::kDeadlineExceeded, "the worker did not answer in time",
                      "worker_unreachable"});
    });
    if (request.has_body) {
      stream_->write(call.body);
      stream_->end_body();
    }
  }

 private:
  void take(std::string_view bytes) {
    if (answer_.body.size() + bytes.size() > Fleet::kMaxAnswerBytes) {
      cut(Error{ErrorCode::kTooLarge, "the worker's answer is too large", "worker_unreachable"});
      return;
    }
    answer_.body += bytes;
  }

  void cut(const Error& error) {
    if (stream_) {
      stream_->reset();
    }
    finish(error);
  }

  void finish(Result<WorkerAnswer> result) {
    const auto done = std::exchange(done_, nullptr);
    if (!done) {
      return;
    }
    if (timer_ != 0) {
      loop_.cancel(std::exchange(timer_, 0));
    }
    stream_.reset();
    done(std::move(result));
  }

  io::EventLoop& loop_;
  Fleet::Done done_;
  WorkerAnswer answer_;
  std::shared_ptr<net::TunnelStream> stream_;  // Shared with the tunnel until the stream ends.
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace

Error worker_unreachable() {
  return Error{ErrorCode::kUnavailable,
               "the sandbox's worker has no connection to the controller now; try again later",
               "worker_unreachable"};
}

void Fleet::attach(const std::string& worker, std::shared_ptr<io::Socket> socket,
                   const std::string& early) {
  if (stopped_) {
    socket->close();
    return;
  }
  const std::uint64_t epoch = ++last_epoch_;
  if (const auto old = sessions_.find(worker); old != sessions_.end()) {
    const Session replaced = old->second;
    closed(worker, replaced.epoch,
           Error{ErrorCode::kUnavailable, "a newer tunnel of the worker replaced it"});
    replaced.tunnel->close(std::chrono::milliseconds{0});
  }
  auto tunnel = net::TunnelClient::start(
      context_.loop, std::move(socket), early, net::TunnelLimits{},
      [this, worker, epoch](const Error& why) { closed(worker, epoch, why); });
  sessions_[worker] = Session{epoch, std::move(tunnel)};
  context_.events.tell({Severity::kInfo, "tunnel_opened", {}, {{"worker", worker}}});
  hooks_.on_attached(worker, epoch);
}

void Fleet::detach(const std::string& worker) {
  const auto found = sessions_.find(worker);
  if (found == sessions_.end()) {
    return;
  }
  const Session session = found->second;
  closed(worker, session.epoch, Error{ErrorCode::kUnavailable, "the worker was removed"});
  session.tunnel->close(std::chrono::milliseconds{0});
}

void Fleet::dismiss(const std::string& worker, std::vector<std::string> orders) {
  context_.loop.post([this, worker, orders = std::move(orders)] {
    if (orders.empty()) {
      return detach(worker);
    }
    context_.loop.run_after(kFarewell, [this, worker] { detach(worker); });
    const auto open = std::make_shared<std::size_t>(orders.size());  // Shared by the answers.
    for (const std::string& order : orders) {
      start_call({worker, "POST", "/v1/deliveries", order, kFarewell},
                 [this, worker, open](const Result<WorkerAnswer>&) {
                   if (--*open == 0) {
                     // Not from inside of the tunnel's own callback.
                     context_.loop.post([this, worker] { detach(worker); });
                   }
                 });
    }
  });
}

void Fleet::closed(const std::string& worker, std::uint64_t epoch, const Error& why) {
  const auto found = sessions_.find(worker);
  if (found == sessions_.end() || found->second.epoch != epoch) {
    return;
  }
  // The callback may come from inside of the tunnel: it must not end while it runs.
  context_.loop.post([kept = std::move(found->second.tunnel)] { static_cast<void>(kept); });
  sessions_.erase(found);
  context_.roster.set_online(worker, false);
  context_.events.tell({Severity::kInfo, "tunnel_closed", why.message, {{"worker", worker}}});
  hooks_.on_detached(worker, epoch);
}

std::shared_ptr<net::TunnelClient> Fleet::tunnel(const std::string& worker) const {
  const auto found = sessions_.find(worker);
  return found == sessions_.end() ? nullptr : found->second.tunnel;
}

void Fleet::set_ready(const std::string& worker) {
  if (sessions_.contains(worker)) {
    context_.roster.set_online(worker, true);
  }
}

void Fleet::shut_down(std::chrono::milliseconds grace) {
  stopped_ = true;
  const auto sessions = sessions_;  // Closing changes the map.
  for (const auto& [worker, session] : sessions) {
    context_.roster.set_online(worker, false);
    session.tunnel->close(grace);
  }
}

void Fleet::call(Call call, Done done) {
  if (context_.loop.on_loop_thread()) {
    start_call(std::move(call), std::move(done));
    return;
  }
  context_.loop.post([this, call = std::move(call), done = std::move(done)]() mutable {
    start_call(std::move(call), std::move(done));
  });
}

void Fleet::start_call(Call call, Done done) {
  const auto standing = tunnel(call.worker);
  if (!standing || !standing->is_open()) {
    done(worker_unreachable());
    return;
  }
  std::make_shared<ShortCall>(context_.loop, std::move(done))->start(*standing, call);
}

}  // namespace sandboxkit::control
