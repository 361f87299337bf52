#include "egress/upstream_pool.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace sandboxkit::egress {
namespace {

/// Neither bytes nor an end wait to be read: what came before the next request can be no answer to
/// it.
bool is_quiet(const io::Socket& socket) {
  char byte = 0;
  return socket.is_open() && socket.queued_bytes() == 0 &&
         ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

}  // namespace

void UpstreamPool::park(ParkedUpstream upstream, Steady::time_point now) {
  if (!is_quiet(*upstream.socket)) {
    return upstream.socket->close();
  }
  if (waiting_.size() >= kMaxParked) {
    drop_one();
  }
  const io::Socket* const socket = upstream.socket.get();
  waiting_.push_back({std::move(upstream), now});
  // The pool closes its sockets before it dies.
  waiting_.back().upstream.socket->start({
      .on_data = [this, socket](std::string_view) { forget(socket); },
      .on_end = [this, socket] { forget(socket); },
      .on_close = [this, socket](const Error&) { forget(socket); },
  });
}

ParkedUpstream UpstreamPool::take(const std::string& of) {
  for (auto it = waiting_.end(); it != waiting_.begin();) {
    --it;
    if (it->upstream.of != of) {
      continue;
    }
    ParkedUpstream found = std::move(it->upstream);
    it = waiting_.erase(it);
    if (is_quiet(*found.socket)) {
      return found;
    }
    found.socket->close();
  }
  return {};
}

bool UpstreamPool::drop_one() {
  if (waiting_.empty()) {
    return false;
  }
  const auto oldest = std::move(waiting_.front().upstream.socket);
  waiting_.pop_front();
  oldest->close();
  return true;
}

void UpstreamPool::sweep(Steady::time_point now) {
  while (!waiting_.empty() && now - waiting_.front().since > kLongestWait) {
    drop_one();
  }
}

void UpstreamPool::clear() {
  while (drop_one()) {
  }
}

void UpstreamPool::forget(const io::Socket* socket) {
  const auto found = std::ranges::find_if(
      waiting_, [&](const Waiting& it) { return it.upstream.socket.get() == socket; });
  if (found != waiting_.end()) {
    const auto gone = std::move(found->upstream.socket);
    waiting_.erase(found);
    gone->close();
  }
}

}  // namespace sandboxkit::egress
