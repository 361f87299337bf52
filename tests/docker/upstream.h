#pragma once

#include "io/fd.h"
#include "io/socket.h"

#include <atomic>
#include <string>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

namespace sandboxkit::test {

/// A web server of this machine, as a package mirror in the worker's network. Counts who came.
class Upstream {
 public:
  Upstream() {
    auto listener = io::listen_tcp("0.0.0.0", 0);
    REQUIRE(listener);
    listener_ = std::move(*listener);
    port_ = std::to_string(*io::local_port(listener_.get()));
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }

  const std::string& port() const { return port_; }
  int visits() const { return visits_; }

 private:
  void serve(const std::stop_token& stop) {
    constexpr int kLookMs = 50;
    constexpr std::string_view kAnswer =
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\npackages\n";
    while (!stop.stop_requested()) {
      pollfd wait{listener_.get(), POLLIN, 0};
      if (poll(&wait, 1, kLookMs) <= 0) {
        continue;
      }
      const io::Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) {
        continue;
      }
      ++visits_;
      char buffer[4096];
      recv(client.get(), buffer, sizeof buffer, 0);
      send(client.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    }
  }

  io::Fd listener_;
  std::string port_;
  std::atomic<int> visits_ = 0;
  std::jthread thread_;
};

}  // namespace sandboxkit::test
