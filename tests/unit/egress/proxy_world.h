#pragma once

#include "egress/proxy.h"
#include "egress/secret_book.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/socket.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sandboxkit::egress::test {

/// What the small upstream answers to the bytes that it has so far; empty: wait for more.
struct Reply {
  std::string bytes;
  bool close = false;
};
using Upstream = std::function<Reply(const std::string& received)>;

/// Answers each whole head with 200 and that head as its body, so a test sees what arrived.
Reply mirror_head(const std::string& received);
Reply echo(const std::string& received);

/// What the fake name server knows. A name that is not there: NXDOMAIN.
struct DnsRecords {
  std::map<std::string, std::vector<std::string>> addresses{};  ///< Of both versions.
  std::vector<std::string> silent{};
  std::vector<std::string> broken{};  ///< SERVFAIL
};

struct WorldOptions {
  std::vector<std::string> domains{};
  std::vector<std::string> networks{};
  std::map<std::string, std::string> hosts{};
  std::vector<std::string> lent{};
  DnsRecords dns{};
  Upstream upstream = mirror_head;
  bool strict_tls = false;
  Limits limits{.sweep = Limits::Ms{20}};
  std::string local_address = "127.0.0.9";  ///< The one that counts as the proxy's own.
};

/// A proxy, an upstream and a name server on loopback, served by one thread. `@` in a domain or
/// network entry stands for the upstream's port.
class World {
 public:
  explicit World(WorldOptions options);
  ~World();

  std::uint16_t proxy_port() const { return proxy_->port(); }
  std::uint16_t upstream_port() const { return upstream_port_; }
  std::string up() const { return std::to_string(upstream_port_); }
  std::size_t upstream_connections() const { return upstream_connections_; }
  std::size_t dns_queries() const { return dns_queries_; }

  /// JSON text, read on the proxy's thread.
  std::string denied();
  std::string stats();
  /// The error's reason, or nothing.
  std::string lend(SecretOrder order);
  /// `ok`, or the reason why the policy in force cannot be narrowed so.
  std::string narrow(const std::vector<std::string>& domains,
                     const std::vector<std::string>& networks = {});
  /// Reads the decision log until `text` stands in it, for at most five seconds.
  std::string log_until(std::string_view text);

 private:
  void on_upstream(io::Fd fd);
  void serve_dns();
  std::string on_loop(const std::function<std::string()>& work);

  WorldOptions options_;
  io::EventLoop loop_;
  io::Fd listener_;
  io::Fd dns_;
  io::Fd log_read_;
  io::Fd log_write_;
  std::uint16_t upstream_port_ = 0;
  std::atomic<std::size_t> upstream_connections_{0};
  std::atomic<std::size_t> dns_queries_{0};
  std::unique_ptr<Proxy> proxy_;
  std::vector<std::shared_ptr<io::Socket>> upstream_sockets_;
  std::thread thread_;
};

/// A blocking client with a time limit of five seconds on everything.
class Client {
 public:
  explicit Client(const World& world);
  void send(std::string_view bytes) const;
  void shutdown_write() const;
  /// Closes with a reset.
  void reset();
  /// Reads until `text` was seen, EOF, or the time limit; returns all that was read by this call.
  std::string read_until(std::string_view text);
  /// Reads until EOF; `timed_out()` says that none came.
  std::string read_all();
  /// One answer with Content-Length or without a body.
  std::string read_answer(bool has_body = true);
  bool timed_out() const { return timed_out_; }

 private:
  bool read_some();
  io::Fd fd_;
  std::string buffer_;
  bool timed_out_ = false;
};

/// Sends `request` on a new connection and reads to the end of the connection or the first answer.
std::string ask(const World& world, std::string_view request);

}  // namespace sandboxkit::egress::test
