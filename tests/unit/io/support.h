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
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
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

/// Bytes that show when some are lost, doubled or swapped: a long period that divides no buffer.
inline std::string pattern(std::size_t size, std::size_t from = 0) {
  constexpr std::size_t kPeriod = 65'537;
  static const std::string kTable = [] {
    std::string table(kPeriod, '\0');
    for (std::size_t i = 0; i < kPeriod; ++i) {
      table[i] = static_cast<char>((i * 31 + i / 251) & 0xff);
    }
    return table;
  }();
  std::string out;
  out.reserve(size);
  for (std::size_t at = from % kPeriod; out.size() < size; at = 0) {
    out.append(kTable, at, size - out.size());
  }
  return out;
}

}  // namespace sandboxkit::io::testing
