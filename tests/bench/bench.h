#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/// What the benchmark programs share. Figures are ratios of one run: a machine that is busy with
/// other things slows both sides of a ratio.
namespace sandboxkit::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] inline void give_up(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::_Exit(1);  // Other threads may run: nothing of theirs is torn down under them.
}

/// Latencies of one kind, in microseconds.
class Samples {
 public:
  void add(Clock::time_point start) { add_seconds(seconds_since(start)); }
  void add_seconds(double seconds) { microseconds_.push_back(seconds * 1e6); }
  void append(const Samples& other) {
    microseconds_.insert(microseconds_.end(), other.microseconds_.begin(),
                         other.microseconds_.end());
  }
  double percentile(double share) {
    std::sort(microseconds_.begin(), microseconds_.end());
    const auto index = share * static_cast<double>(microseconds_.size() - 1);
    return microseconds_[static_cast<std::size_t>(index)];
  }
  double median() { return percentile(0.5); }
  void print(const char* name) {
    std::printf("%-44s p50 %8.1f us   p99 %8.1f us\n", name, median(), percentile(0.99));
  }

 private:
  std::vector<double> microseconds_;
};

inline std::size_t rss_kib() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0;
  unsigned long resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) {
    give_up("statm");
  }
  std::fclose(file);
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

inline int connect_loopback(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    give_up("connect");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

/// Both ends of a TCP connection over loopback.
struct TcpPair {
  int near = -1;
  int far = -1;
};

inline TcpPair tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    give_up("listen");
  }
  TcpPair pair;
  pair.near = connect_loopback(ntohs(address.sin_port));
  pair.far = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const int on = 1;
  ::setsockopt(pair.far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::close(listener);
  return pair;
}

inline void send_all(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const auto sent = ::send(fd, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) {
      give_up("send");
    }
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
}

inline void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sandboxkit::bench
