#include "io/socket.h"

#include <memory>
#include <string>
#include <utility>

namespace sandboxkit::io {
namespace {

struct Pipe {
  std::shared_ptr<Socket> a;
  std::shared_ptr<Socket> b;
  std::function<void()> on_done;
};

/// The handlers of `from`, whose bytes go to `to`. They own the pipe: it lives as long as an end.
Socket::Handlers one_way(const std::shared_ptr<Pipe>& pipe, Socket& from, Socket& to) {
  Socket::Handlers handlers;
  handlers.on_data = [pipe, &from, &to](std::string_view bytes) {
    to.write(bytes);
    if (to.queued_bytes() >= Socket::kHighWater) {
      from.pause_reading();
    }
  };
  handlers.on_end = [pipe, &to] { to.shutdown_write(); };
  handlers.on_drain = [pipe, &to] { to.resume_reading(); };
  handlers.on_close = [pipe, &to](const Error&) {
    to.close_after_flush();
    if (const auto on_done = std::exchange(pipe->on_done, nullptr)) {
      on_done();
    }
  };
  return handlers;
}

}  // namespace

void pipe_sockets(std::shared_ptr<Socket> a, std::shared_ptr<Socket> b, std::string early_a,
                  std::function<void()> on_done) {
  Socket& first = *a;
  Socket& second = *b;
  auto pipe = std::make_shared<Pipe>(Pipe{std::move(a), std::move(b), std::move(on_done)});
  if (!first.is_open() || !second.is_open()) {
    first.close_after_flush();
    second.close_after_flush();
    first.loop().post([pipe] {
      if (const auto done = std::exchange(pipe->on_done, nullptr)) {
        done();
      }
    });
    return;
  }
  second.write(std::move(early_a));
  first.resume_reading();
  second.resume_reading();
  first.start(one_way(pipe, first, second));
  second.start(one_way(pipe, second, first));
}

}  // namespace sandboxkit::io
