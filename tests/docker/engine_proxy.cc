#include "tests/docker/engine_proxy.h"

#include "io/socket.h"

#include <array>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::test {
namespace {

constexpr int kLookMs = 50;
constexpr std::string_view kRefusal =
    "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n"
    "Content-Length: 28\r\n\r\n{\"message\":\"a test's fault\"}";

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool is_request_line(std::string_view bytes) {
  return bytes.starts_with("GET ") || bytes.starts_with("POST ") || bytes.starts_with("DELETE ");
}

}  // namespace

EngineProxy::EngineProxy(const std::string& socket_path, const std::string& engine_socket,
                         Judge judge)
    : engine_socket_(engine_socket), judge_(std::move(judge)) {
  auto listener = io::listen_unix(socket_path, 0600, 64);
  REQUIRE(listener);
  listener_ = std::move(*listener);
  acceptor_ = std::thread([this] { accept_all(); });
}

EngineProxy::~EngineProxy() {
  stopping_ = true;
  shut();
  acceptor_.join();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void EngineProxy::shut() {
  shut_ = true;
  const std::lock_guard lock(mutex_);
  for (const int fd : live_) {
    ::shutdown(fd, SHUT_RDWR);
  }
}

void EngineProxy::open() { shut_ = false; }

void EngineProxy::accept_all() {
  while (!stopping_) {
    pollfd wait{listener_.get(), POLLIN, 0};
    if (::poll(&wait, 1, kLookMs) <= 0) {
      continue;
    }
    io::Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client && !shut_) {
      threads_.emplace_back([this, fd = client.release()] { serve(io::Fd(fd)); });
    }
  }
}

/// One connection. A client of ours sends a request only when the answer before it is read.
void EngineProxy::serve(io::Fd client) {
  auto engine = io::connect_unix(engine_socket_);
  if (!engine) {
    return;
  }
  const int up = engine->get();
  const int down = client.get();
  {
    const std::lock_guard lock(mutex_);
    live_.insert({up, down});
  }
  std::array<char, 65536> buffer{};
  bool lose_answer = false;
  while (true) {
    std::array<pollfd, 2> wait{pollfd{down, POLLIN, 0}, pollfd{up, POLLIN, 0}};
    if (::poll(wait.data(), wait.size(), -1) <= 0) {
      break;
    }
    const bool from_client = wait[0].revents != 0;
    const ssize_t got = ::recv(from_client ? down : up, buffer.data(), buffer.size(), 0);
    if (got <= 0 || (!from_client && lose_answer)) {
      break;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    Fate fate = Fate::kPass;
    if (from_client && is_request_line(bytes)) {
      fate = judge_(std::string(bytes.substr(0, bytes.find(" HTTP/"))));
    }
    if (fate == Fate::kLoseRequest) {
      break;
    }
    if (fate == Fate::kRefuse) {
      send_all(down, kRefusal);
      break;
    }
    lose_answer = lose_answer || fate == Fate::kLoseAnswer;
    if (!send_all(from_client ? up : down, bytes)) {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  live_.erase(up);
  live_.erase(down);
}

}  // namespace sandboxkit::test
