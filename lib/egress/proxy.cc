#include "egress/proxy.h"

#include "base/text.h"
#include "egress/client_connection.h"
#include "egress/dns_refuser.h"
#include "io/acceptor.h"
#include "io/socket.h"

#include <unordered_set>
#include <utility>

namespace sandboxkit::egress {
namespace {

class ProxyImpl final : public Proxy {
 public:
  ProxyImpl(const Config& config, ProxyParts parts, std::unique_ptr<Resolver> resolver)
      : resolver_(std::move(resolver)),
        log_(parts.loop, parts.log_fd, parts.spare_log_fd),
        inherited_(std::move(parts.listener)),
        engine_{.loop = parts.loop,
                .policy = config.policy,
                .hosts = config.hosts,
                .limits = parts.limits,
                .resolver = *resolver_,
                .log = log_,
                .clock = parts.clock,
                .is_local = std::move(parts.is_local),
                .secrets = SecretBook(config.lent)} {
    if (engine_.limits.max_bytes > 0) {
      engine_.tunnels.bytes_left = engine_.limits.max_bytes;
    }
  }

  ~ProxyImpl() override {
    engine_.loop.cancel(sweep_timer_);
    if (acceptor_) {
      acceptor_->close();
    }
    for (const auto& connection : connections_) {
      connection->close();
    }
    *alive_ = false;
  }

  Status listen(const Config& config) {
    auto listener = inherited_ ? Result<io::Fd>(std::move(inherited_))
                               : io::listen_tcp(config.listen.address, config.listen.port);
    if (!listener) {
      return std::move(listener).error();
    }
    const auto port = io::local_port(listener->get());
    if (!port) {
      return port.error();
    }
    port_ = *port;
    if (config.dns_listen) {
      auto dns =
          DnsRefuser::start(engine_.loop, config.dns_listen->address, config.dns_listen->port);
      if (!dns) {
        return std::move(dns).error();
      }
      dns_ = *std::move(dns);
    }
    acceptor_ = io::Acceptor::start(engine_.loop, *std::move(listener),
                                    [this](io::Fd fd) { accept(std::move(fd)); });
    return {};
  }

  std::uint16_t port() const override { return port_; }
  std::uint16_t dns_port() const override { return dns_ ? dns_->port() : std::uint16_t{0}; }
  json::Value denied() const override { return engine_.denied.to_json(); }

  Status lend(SecretOrder order) override { return engine_.secrets.put(std::move(order)); }

  Status narrow(const NarrowedPolicy& narrowed) override {
    if (auto narrows = check_narrows(narrowed.policy, engine_.policy); !narrows) {
      return narrows;
    }
    const bool stricter = narrowed.policy.strict_tls() && !engine_.policy.strict_tls();
    engine_.policy = narrowed.policy;
    engine_.parked.clear();
    narrowed_to_ = narrowed.policy_hash;
    engine_.log.write(json::Object{{"time", to_rfc3339(engine_.clock.now())},
                                   {"event", "narrowed"},
                                   {"policy_hash", narrowed_to_}});
    const std::vector<std::shared_ptr<ClientConnection>> all(connections_.begin(),
                                                             connections_.end());
    for (const auto& connection : all) {
      connection->judge_again(stricter);
    }
    return {};
  }

  const std::string& narrowed_to() const override { return narrowed_to_; }

  json::Value stats() const override {
    const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    const Stats& stats = engine_.stats;
    return json::Object{{"open_connections", number(connections_.size())},
                        {"open_upstreams", number(engine_.upstreams)},
                        {"parked_upstreams", number(engine_.parked.size())},
                        {"connections", number(stats.connections)},
                        {"requests", number(stats.requests)},
                        {"allowed", number(stats.allowed)},
                        {"denied", number(stats.denied)},
                        {"refused", number(stats.refused)},
                        {"failed", number(stats.failed)},
                        {"bytes_up", number(stats.bytes_up)},
                        {"bytes_down", number(stats.bytes_down)},
                        {"sni_other", number(stats.sni_other)},
                        {"dns_refused", number(dns_ ? dns_->refused() : 0)},
                        {"secrets", engine_.secrets.uses()},
                        {"denied_dropped", number(engine_.denied.dropped())},
                        {"log_lines_dropped", number(log_.dropped())}};
  }

 private:
  void accept(io::Fd fd) {
    ++engine_.stats.connections;
    if (connections_.size() >= engine_.limits.max_connections) {
      ++engine_.stats.refused;
      const auto socket = io::Socket::adopt(engine_.loop, std::move(fd));
      socket->write(refusal_response(
          {429, "too_many_connections", "This sandbox has too many connections to its proxy."},
          false, true));
      return socket->close_after_flush();
    }
    auto slot = std::make_shared<std::weak_ptr<ClientConnection>>();
    auto connection =
        ClientConnection::start(engine_, std::move(fd), [this, slot] { forget(slot->lock()); });
    *slot = connection;
    connections_.insert(std::move(connection));
    if (sweep_timer_ == 0) {
      sweep_timer_ = engine_.loop.run_after(engine_.limits.sweep, [this] { sweep(); });
    }
  }

  void forget(std::shared_ptr<ClientConnection> connection) {
    // It may be in the middle of a callback of its own, so it dies from the loop.
    engine_.loop.post([this, alive = alive_, connection = std::move(connection)]() mutable {
      if (*alive) {
        connections_.erase(connection);
      }
      connection.reset();
    });
  }

  /// Runs only while there is somebody to look at: an idle proxy costs nothing.
  void sweep() {
    sweep_timer_ = 0;
    const auto now = std::chrono::steady_clock::now();
    const std::vector<std::shared_ptr<ClientConnection>> all(connections_.begin(),
                                                             connections_.end());
    for (const auto& connection : all) {
      connection->sweep(now);
    }
    engine_.parked.sweep(now);
    if (!connections_.empty() || engine_.parked.size() > 0) {
      sweep_timer_ = engine_.loop.run_after(engine_.limits.sweep, [this] { sweep(); });
    }
  }

  std::unique_ptr<Resolver> resolver_;
  LineLog log_;
  io::Fd inherited_;
  Engine engine_;
  std::shared_ptr<io::Acceptor> acceptor_;
  std::unique_ptr<DnsRefuser> dns_;
  std::unordered_set<std::shared_ptr<ClientConnection>> connections_;
  std::uint16_t port_ = 0;
  std::string narrowed_to_;
  io::EventLoop::TimerId sweep_timer_ = 0;
  // Lets posted work see that the proxy is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<Proxy>> Proxy::start(const Config& config, ProxyParts parts) {
  auto resolver = Resolver::create(parts.loop, config.dns_servers, parts.limits.resolve);
  if (!resolver) {
    return std::move(resolver).error();
  }
  auto proxy = std::make_unique<ProxyImpl>(config, std::move(parts), *std::move(resolver));
  if (auto status = proxy->listen(config); !status) {
    return status.error();
  }
  return std::unique_ptr<Proxy>(std::move(proxy));
}

}  // namespace sandboxkit::egress
