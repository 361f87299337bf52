#include "tests/unit/egress/proxy_world.h"

#include "base/text.h"
#include "io/acceptor.h"
#include "wire/http.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace sandboxkit::egress::test {
namespace {

constexpr int kClientSeconds = 5;

std::vector<std::string> with_port(std::vector<std::string> entries, const std::string& port) {
  for (std::string& entry : entries) {
    if (const auto at = entry.find('@'); at != std::string::npos) {
      entry.replace(at, 1, port);
    }
  }
  return entries;
}

std::string u16(unsigned value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
}

/// The answer to one query: the question repeated, then one record for each fitting address.
std::string dns_answer(const std::string& query, const DnsRecords& records, std::string& name) {
  std::size_t at = 12;
  while (at < query.size() && query[at] != 0) {
    const auto length = static_cast<unsigned char>(query[at]);
    name += (name.empty() ? "" : ".") + query.substr(at + 1, length);
    at += 1U + length;
  }
  const unsigned type = static_cast<unsigned char>(query[at + 2]);
  const auto known = records.addresses.find(name);
  const bool broken = std::ranges::find(records.broken, name) != records.broken.end();
  std::string body;
  unsigned count = 0;
  if (known != records.addresses.end()) {
    for (const std::string& text : known->second) {
      const IpAddress address = IpAddress::parse(text).value();
      if (address.is_v6 == (type == 28)) {
        const std::size_t bytes = address.is_v6 ? 16 : 4;
        body +=
            "\xc0\x0c" + u16(type) + u16(1) + u16(0) + u16(0) + u16(static_cast<unsigned>(bytes));
        body.append(reinterpret_cast<const char*>(address.bytes.data()), bytes);
        ++count;
      }
    }
  }
  const unsigned code = broken ? 2 : known == records.addresses.end() ? 3 : 0;
  return query.substr(0, 2) + u16(0x8180 | code) + u16(1) + u16(count) + u16(0) + u16(0) +
         query.substr(12, at + 5 - 12) + body;
}

io::Fd loopback_udp() {
  io::Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  return fd;
}

}  // namespace

Reply mirror_head(const std::string& received) {
  std::string out;
  std::string_view rest = received;
  for (std::size_t end = wire::find_head_end(rest); end != 0; end = wire::find_head_end(rest)) {
    out += "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(end) + "\r\n\r\n";
    out += rest.substr(0, end);
    rest.remove_prefix(end);
  }
  return {out};
}

Reply echo(const std::string& received) { return {received}; }

World::World(WorldOptions options) : options_(std::move(options)) {
  std::signal(SIGPIPE, SIG_IGN);  // As the sidecar does.
  listener_ = io::listen_tcp("127.0.0.1", 0).value();
  upstream_port_ = io::local_port(listener_.get()).value();
  dns_ = loopback_udp();
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  log_read_.reset(pipe[0]);
  log_write_.reset(pipe[1]);
  std::map<std::string, IpAddress> hosts;
  for (const auto& [name, text] : options_.hosts) {
    hosts[name] = IpAddress::parse(text).value();
  }
  auto policy =
      EgressPolicy::create(with_port(options_.domains, up()), with_port(options_.networks, up()))
          .value();
  const Config config{
      .listen = {"127.0.0.1", 0},
      .dns_listen = ListenAddress{"127.0.0.1", 0},
      .policy = options_.strict_tls ? policy.with_strict_tls() : policy,
      .dns_servers = {"127.0.0.1:" + std::to_string(io::local_port(dns_.get()).value())},
      .hosts = hosts,
      .lent = with_port(options_.lent, up()),
      .policy_hash = "test"};
  const IpAddress own = IpAddress::parse(options_.local_address).value();
  proxy_ = Proxy::start(config, {.loop = loop_,
                                 .log_fd = log_write_.get(),
                                 .clock = system_clock(),
                                 .is_local = [own](const IpAddress& a) { return a == own; },
                                 .limits = options_.limits})
               .value();
  const auto acceptor = io::Acceptor::start(loop_, std::move(listener_),
                                            [this](io::Fd fd) { on_upstream(std::move(fd)); });
  loop_.add(dns_.get(), EPOLLIN, [this](std::uint32_t) { serve_dns(); });
  thread_ = std::thread([this, acceptor] { loop_.run(); });
}

World::~World() {
  loop_.stop();
  thread_.join();
  proxy_.reset();
  loop_.remove(dns_.get());
  for (const auto& socket : upstream_sockets_) {
    socket->close();
  }
}

void World::on_upstream(io::Fd fd) {
  ++upstream_connections_;
  const auto socket = io::Socket::adopt(loop_, std::move(fd));
  upstream_sockets_.push_back(socket);
  const auto received = std::make_shared<std::string>();
  socket->start({.on_data =
                     [this, socket = socket.get(), received](std::string_view bytes) {
                       *received += bytes;
                       const Reply reply = options_.upstream(*received);
                       if (!reply.bytes.empty()) {
                         received->clear();
                         socket->write(reply.bytes);
                       }
                       if (reply.close) {
                         socket->close_after_flush();
                       }
                     },
                 .on_end = [socket = socket.get()] { socket->close_after_flush(); }});
}

void World::serve_dns() {
  std::array<char, 2048> buffer{};
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  const ssize_t got = ::recvfrom(dns_.get(), buffer.data(), buffer.size(), 0, address, &size);
  if (got < 12) {
    return;
  }
  ++dns_queries_;
  std::string name;
  const std::string answer =
      dns_answer({buffer.data(), static_cast<std::size_t>(got)}, options_.dns, name);
  if (std::ranges::find(options_.dns.silent, name) == options_.dns.silent.end()) {
    ::sendto(dns_.get(), answer.data(), answer.size(), 0, address, size);
  }
}

std::string World::on_loop(const std::function<std::string()>& work) {
  std::promise<std::string> promise;
  loop_.post([&] { promise.set_value(work()); });
  return promise.get_future().get();
}

std::string World::denied() {
  return on_loop([this] { return json::dump(proxy_->denied()); });
}

std::string World::narrow(const std::vector<std::string>& domains,
                          const std::vector<std::string>& networks) {
  return on_loop([&] {
    const NarrowedPolicy narrowed{
        EgressPolicy::create(with_port(domains, up()), with_port(networks, up())).value(),
        "narrowed"};
    const Status done = proxy_->narrow(narrowed);
    return done ? std::string("ok") : reason_of(done.error());
  });
}

std::string World::stats() {
  return on_loop([this] { return json::dump(proxy_->stats()); });
}

std::string World::lend(SecretOrder order) {
  return on_loop([&] {
    const Status done = proxy_->lend(std::move(order));
    return done ? std::string() : reason_of(done.error());
  });
}

std::string World::log_until(std::string_view text) {
  std::string out;
  std::array<char, 65536> buffer{};
  pollfd entry{log_read_.get(), POLLIN, 0};
  while (out.find(text) == std::string::npos && ::poll(&entry, 1, kClientSeconds * 1000) == 1) {
    const ssize_t got = ::read(log_read_.get(), buffer.data(), buffer.size());
    if (got <= 0) {
      break;
    }
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return out;
}

Client::Client(const World& world) {
  fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{kClientSeconds, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(world.proxy_port());
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
}

void Client::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;  // The proxy hung up; what it said is read by the test.
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Client::shutdown_write() const { ::shutdown(fd_.get(), SHUT_WR); }

void Client::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  fd_.reset();
}

bool Client::read_some() {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (got > 0) {
    buffer_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return got > 0;
}

std::string Client::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos && read_some()) {
  }
  const auto at = buffer_.find(text);
  const std::size_t end = at == std::string::npos ? buffer_.size() : at + text.size();
  std::string out = buffer_.substr(0, end);
  buffer_.erase(0, end);
  return out;
}

std::string Client::read_all() {
  while (read_some()) {
  }
  return std::exchange(buffer_, {});
}

std::string Client::read_answer(bool has_body) {
  std::string out = read_until("\r\n\r\n");
  constexpr std::string_view kLength = "content-length: ";
  const auto at = ascii_lower(out).find(kLength);
  if (!has_body || at == std::string::npos) {
    return out;
  }
  const std::size_t length = std::stoul(out.substr(at + kLength.size()));
  while (buffer_.size() < length && read_some()) {
  }
  out += buffer_.substr(0, length);
  buffer_.erase(0, std::min(length, buffer_.size()));
  return out;
}

std::string ask(const World& world, std::string_view request) {
  Client client(world);
  client.send(request);
  return client.read_answer();
}

}  // namespace sandboxkit::egress::test
