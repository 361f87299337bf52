#pragma once

#include "io/event_loop.h"
#include "io/fd.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include <sys/socket.h>

namespace sandboxkit::io::testing {

/// Both ends of a unix stream socket.
inline std::pair<Fd, Fd> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return {};
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Turns the loop until `done` holds; false when it does not within the (generous) bound.
inline bool run_until(EventLoop& loop, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    loop.run_once(EventLoop::Duration{100});
  }
  return true;
}

/// Serves what is ready, until nothing is.
inline void settle(EventLoop& loop) {
  for (int i = 0; i < 20; ++i) {
    loop.run_once(EventLoop::Duration{0});
  }
}

inline std::ptrdiff_t open_descriptors() {
  std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

/// Bytes that show when some are lost, doubled or swapped.
inline std::string pattern(std::size_t size, std::size_t from = 0) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = from + i;
    out[i] = static_cast<char>((at * 31 + at / 251) & 0xff);
  }
  return out;
}

}  // namespace sandboxkit::io::testing
