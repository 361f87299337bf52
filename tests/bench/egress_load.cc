// An upstream and a load for the proxies of egress_peers.py. Epoll and one thread each, so that the
// proxy between them is what is measured.
//
//   egress_load upstream ADDRESS            listens, prints its port, serves until it is ended
//   egress_load MODE PROXY AUTHORITY COUNT SECONDS
//     MODE: keep new connect kept bulk hold;  PROXY: address:port, or `direct`
//     AUTHORITY: host:port as the proxy is to read it; with `direct` it is dialled

#include "tests/bench/bench.h"

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>

using namespace sandboxkit::bench;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kBodyBytes = 1024;
constexpr std::size_t kBulkBytes = std::size_t{1} << 30U;
constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::chrono::seconds kLongestTunnel{10};
std::vector<char> buffer(kBufferBytes, 'x');

sockaddr_in address_of(const std::string& text) {
  const auto colon = text.find(':');
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1))));
  if (::inet_pton(AF_INET, text.substr(0, colon).c_str(), &where.sin_addr) != 1) {
    give_up("address");
  }
  return where;
}

void without_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void watch(int epoll, int operation, int fd, std::uint32_t events, void* data) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = data;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0) {
    give_up("epoll_ctl");
  }
}

// --- The upstream

struct Served {
  int fd;
  std::string input{};
  std::size_t bulk_left = 0;
};

/// False when the connection is over.
bool serve(Served& it, int epoll) {
  while (it.bulk_left > 0) {
    const ssize_t put =
        ::send(it.fd, buffer.data(), std::min(buffer.size(), it.bulk_left), MSG_NOSIGNAL);
    if (put <= 0) {
      return put < 0 && errno == EAGAIN;
    }
    it.bulk_left -= static_cast<std::size_t>(put);
    if (it.bulk_left == 0) {
      watch(epoll, EPOLL_CTL_MOD, it.fd, EPOLLIN, &it);
    }
  }
  char bytes[4096];
  const ssize_t got = ::recv(it.fd, bytes, sizeof bytes, 0);
  if (got <= 0) {
    return got < 0 && errno == EAGAIN;
  }
  it.input.append(bytes, static_cast<std::size_t>(got));
  for (auto end = it.input.find("\r\n\r\n"); end != std::string::npos;
       end = it.input.find("\r\n\r\n")) {
    const bool bulk = it.input.find("/bulk") < end;
    const std::size_t length = bulk ? kBulkBytes : kBodyBytes;
    std::string answer =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(length) +
        "\r\n\r\n";
    answer += bulk ? "" : std::string(kBodyBytes, 'b');
    it.input.erase(0, end + 4);
    if (::send(it.fd, answer.data(), answer.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(answer.size())) {
      return false;
    }
    if (bulk) {
      it.bulk_left = length;
      watch(epoll, EPOLL_CTL_MOD, it.fd, EPOLLIN | EPOLLOUT, &it);
    }
  }
  return true;
}

int run_upstream(const std::string& address) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where = address_of(address + ":0");
  socklen_t size = sizeof where;
  auto* raw = reinterpret_cast<sockaddr*>(&where);
  if (::bind(listener, raw, size) != 0 || ::listen(listener, 4096) != 0 ||
      ::getsockname(listener, raw, &size) != 0) {
    give_up("listen");
  }
  std::printf("%d\n", ntohs(where.sin_port));
  std::fflush(stdout);
  const int epoll = ::epoll_create1(0);
  watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN, nullptr);
  for (;;) {
    epoll_event events[256];
    const int count = ::epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < count; ++i) {
      auto* it = static_cast<Served*>(events[i].data.ptr);
      if (it == nullptr) {
        for (int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK); fd >= 0;
             fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK)) {
          without_delay(fd);
          watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, new Served{fd});
        }
      } else if (!serve(*it, epoll)) {
        ::close(it->fd);
        delete it;
      }
    }
  }
}

// --- The load

enum class Step { kTunnel, kAnswer };

struct Load {
  std::string mode{};
  bool direct = false;
  sockaddr_in where{};
  std::string connect{};
  std::string request{};
  bool tunnels = false;  // CONNECT first
  bool closes = false;   // after each answer
  int epoll = -1;
  std::size_t done = 0;
  std::size_t failed = 0;
  std::size_t bytes = 0;
  std::size_t open_tunnels = 0;
  Samples times{};
};

struct Client {
  int fd = -1;
  Step step = Step::kAnswer;
  std::string input{};
  std::size_t left = 0;  // of a body
  bool in_body = false;
  Clock::time_point began{};
};

void send_all(Load& load, Client& it, const std::string& text) {
  if (::send(it.fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    ++load.failed;
  }
}

void begin(Load& load, Client& it) {
  it.began = Clock::now();
  it.fd = ::socket(AF_INET, SOCK_STREAM, 0);
  // Blocking: on this machine a connect to a listener that is there takes no time.
  if (it.fd < 0 ||
      ::connect(it.fd, reinterpret_cast<const sockaddr*>(&load.where), sizeof load.where) != 0) {
    give_up("connect");
  }
  ::fcntl(it.fd, F_SETFL, O_NONBLOCK);
  without_delay(it.fd);
  watch(load.epoll, EPOLL_CTL_ADD, it.fd, EPOLLIN, &it);
  it.input.clear();
  it.in_body = false;
  it.step = load.tunnels ? Step::kTunnel : Step::kAnswer;
  send_all(load, it, load.tunnels ? load.connect : load.request);
}

void restart(Load& load, Client& it) {
  ::close(it.fd);
  begin(load, it);
}

/// One answer is whole.
void finish(Load& load, Client& it) {
  ++load.done;
  load.times.add(it.began);
  it.in_body = false;
  if (load.closes) {
    return restart(load, it);
  }
  it.began = Clock::now();
  send_all(load, it, load.request);
}

void on_readable(Load& load, Client& it) {
  const ssize_t got = ::recv(it.fd, buffer.data(), buffer.size(), 0);
  if (got < 0 && errno == EAGAIN) {
    return;
  }
  if (got <= 0) {
    // Some proxies close after each answer: that is their way, and counts as theirs.
    load.failed += it.input.empty() && !it.in_body ? 0 : 1;
    return restart(load, it);
  }
  std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  if (!it.in_body) {
    it.input += bytes;
    const auto end = it.input.find("\r\n\r\n");
    if (end == std::string::npos) {
      return;
    }
    const bool ok = it.input.compare(8, 5, " 200 ") == 0;
    load.failed += ok ? 0 : 1;
    if (!ok) {
      std::fprintf(stderr, "%s\n", it.input.c_str());
      std::_Exit(1);
    }
    if (it.step == Step::kTunnel) {
      it.input.clear();
      it.step = Step::kAnswer;
      ++load.open_tunnels;
      if (load.mode == "hold") {
        load.times.add(it.began);
        return;
      }
      return send_all(load, it, load.request);
    }
    const auto length = it.input.find("ontent-Length: ");
    it.left = std::stoul(it.input.substr(length + 15));
    it.in_body = true;
    load.bytes += it.input.size() - end - 4;
    it.left -= std::min(it.left, it.input.size() - end - 4);
    it.input.clear();
  } else {
    load.bytes += bytes.size();
    it.left -= std::min(it.left, bytes.size());
  }
  if (it.left == 0) {
    finish(load, it);
  }
}

void run_until(Load& load, Clock::time_point end) {
  while (Clock::now() < end) {
    epoll_event events[256];
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    const int count = ::epoll_wait(load.epoll, events, 256, static_cast<int>(left.count()));
    for (int i = 0; i < count; ++i) {
      on_readable(load, *static_cast<Client*>(events[i].data.ptr));
    }
  }
}

/// Opens tunnels and holds them until a line comes on standard input.
int hold(Load& load, std::vector<std::unique_ptr<Client>>& clients) {
  for (auto& client : clients) {
    begin(load, *client);
    const std::size_t before = load.open_tunnels;
    const auto latest = Clock::now() + kLongestTunnel;
    while (load.open_tunnels == before) {
      if (Clock::now() > latest) {
        give_up("a tunnel did not open in time");
      }
      run_until(load, Clock::now() + std::chrono::milliseconds(1));
    }
  }
  std::printf("{\"open\": %zu, \"p50_us\": %.1f}\n", load.open_tunnels, load.times.median());
  std::fflush(stdout);
  return std::getchar() == EOF ? 1 : 0;
}

int run_load(char** words) {
  Load load;
  load.mode = words[0];
  load.direct = std::string(words[1]) == "direct";
  const std::string authority = words[2];
  load.where = address_of(load.direct ? authority : words[1]);
  const bool in_tunnel = load.mode != "keep" && load.mode != "new";
  load.tunnels = in_tunnel && !load.direct;
  load.closes = load.mode == "new" || load.mode == "connect";
  const bool absolute = !load.direct && !in_tunnel;
  const std::string path = load.mode == "bulk" ? "/bulk" : "/";
  load.connect = "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n";
  load.request = "GET " + (absolute ? "http://" + authority : std::string()) + path +
                 " HTTP/1.1\r\nHost: " + authority + "\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n";
  load.epoll = ::epoll_create1(0);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < std::stoi(words[3]); ++i) {
    clients.push_back(std::make_unique<Client>());
  }
  if (load.mode == "hold") {
    return hold(load, clients);
  }
  for (auto& client : clients) {
    begin(load, *client);
  }
  const auto start = Clock::now();
  run_until(load, start + std::chrono::milliseconds(static_cast<int>(std::stod(words[4]) * 1000)));
  const double seconds = seconds_since(start);
  const double done = static_cast<double>(load.done);
  std::printf(
      "{\"per_second\": %.1f, \"mb_per_second\": %.1f, \"done\": %zu, \"bytes\": %zu, "
      "\"failed\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
      done / seconds, static_cast<double>(load.bytes) / seconds / 1e6, load.done, load.bytes,
      load.failed, load.done > 0 ? load.times.median() : 0,
      load.done > 0 ? load.times.percentile(0.99) : 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "upstream") {
    return run_upstream(argv[2]);
  }
  if (argc == 6) {
    return run_load(argv + 1);
  }
  std::fputs("usage: egress_load upstream ADDRESS | MODE PROXY AUTHORITY COUNT SECONDS\n", stderr);
  return 2;
}
