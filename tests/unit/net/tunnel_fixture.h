#pragma once

#include "io/event_loop.h"
#include "io/socket.h"
#include "net/tunnel.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/socket.h>

namespace sandboxkit::net {

/// Both ends of a tunnel over a socket pair, in one loop.
class TunnelFixture {
 public:
  using OnRequest = std::function<void(std::shared_ptr<TunnelExchange>)>;

  explicit TunnelFixture(OnRequest on_request, TunnelLimits controller = {},
                         TunnelLimits worker = {}) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    controller_socket = io::Socket::adopt(loop, io::Fd(ends[0]));
    worker_socket = io::Socket::adopt(loop, io::Fd(ends[1]));
    client = TunnelClient::start(loop, controller_socket, "", controller,
                                 [this](const Error& error) { client_closed = error; });
    server = TunnelServer::start(loop, worker_socket, "", worker, std::move(on_request),
                                 [this](const Error& error) { server_closed = error; });
  }

  /// Serves the loop until `done` holds; false when it does not come true within a minute.
  bool serve_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) {
        return false;
      }
      loop.run_once(std::chrono::milliseconds(20));
    }
    return true;
  }
  /// Serves until nothing moves any more.
  void serve_until_quiet() {
    for (int i = 0; i < 50; ++i) {
      loop.run_once(std::chrono::milliseconds(0));
    }
  }

  io::EventLoop loop;
  std::shared_ptr<io::Socket> controller_socket;
  std::shared_ptr<io::Socket> worker_socket;
  std::shared_ptr<TunnelClient> client;
  std::shared_ptr<TunnelServer> server;
  std::optional<Error> client_closed;
  std::optional<Error> server_closed;
};

/// What came of one stream at the controller's end. It may die before the tunnel, which then tells
/// nobody.
struct Answer {
  int status = 0;
  wire::Headers headers{};
  std::string body{};
  bool ended = false;
  std::optional<Error> error{};
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  bool over() const { return ended || error.has_value(); }

  TunnelHandlers handlers() {
    return {.on_head =
                [this](int the_status, const wire::Headers& the_headers) {
                  status = the_status;
                  headers = the_headers;
                },
            .on_data = [this](std::string_view bytes) { body.append(bytes); },
            .on_end = [this] { ended = true; },
            .on_error =
                [this, weak = std::weak_ptr(alive)](const Error& the_error) {
                  if (!weak.expired()) {
                    error = the_error;
                  }
                }};
  }
};

inline std::shared_ptr<TunnelStream> open_stream(TunnelClient& client, const TunnelRequest& request,
                                                 TunnelHandlers handlers) {
  auto stream = client.open(request, std::move(handlers));
  REQUIRE(stream);
  return std::move(*stream);
}

/// Writes `total` bytes as the other side takes them. `write`, `queued` and a drain hook are the
/// stream's; it never holds more than the high-water mark and one piece.
class Pump : public std::enable_shared_from_this<Pump> {
 public:
  static constexpr std::size_t kPieceBytes = 64 * 1024;
  Pump(std::size_t total, std::function<void(std::string_view)> write,
       std::function<std::size_t()> queued, std::function<void()> end)
      : left_(total), write_(std::move(write)), queued_(std::move(queued)), end_(std::move(end)) {}

  void run() {
    while (left_ > 0 && queued_() < io::Socket::kHighWater) {
      const auto count = std::min(left_, piece_.size());
      left_ -= count;
      write_(std::string_view(piece_).substr(0, count));
      most_queued = std::max(most_queued, queued_());
    }
    if (left_ == 0 && end_) {
      std::exchange(end_, nullptr)();
    }
  }

  std::size_t most_queued = 0;

 private:
  std::size_t left_;
  std::function<void(std::string_view)> write_;
  std::function<std::size_t()> queued_;
  std::function<void()> end_;
  std::string piece_ = std::string(kPieceBytes, 'p');
};

}  // namespace sandboxkit::net
