#include "sandboxkit/controller.h"

#include "base/random.h"
#include "control/api.h"
#include "control/credential_watch.h"
#include "control/gateway.h"
#include "control/openapi.h"
#include "control/report.h"
#include "control/state_dir.h"
#include "control/sweep.h"
#include "control/watch.h"
#include "net/front.h"
#include "net/ops_server.h"
#include "store/credentials.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

namespace sandboxkit {
namespace {

using std::chrono::milliseconds;
using Instant = std::chrono::steady_clock::time_point;

constexpr std::size_t kControllerIdChars = 12;
/// Threads of the gateway and of the deliveries: enough to fill the store's group commits.
constexpr std::size_t kPoolThreads = 8;
constexpr std::size_t kPoolQueue = 8192;
/// The end of a stop's time, for the workers to hear of it, and how often is looked at what is
/// left.
constexpr milliseconds kGoodbye{1'000};
constexpr milliseconds kLook{20};

Error bad_option(const char* field, const char* message) {
  return Error{ErrorCode::kInvalidArgument, message, {}, field};
}

Status check_config(const ControllerConfig& config) {
  if (config.api_threads == 0 || config.api_threads > 256) {
    return bad_option("api_threads", "api_threads must be 1 to 256");
  }
  if (config.max_sandboxes_per_workspace < 0) {
    return bad_option("max_sandboxes_per_workspace",
                      "max_sandboxes_per_workspace must not be negative");
  }
  if (config.rate_limit_per_key < 0 || config.rate_limit_burst < 1) {
    return bad_option("rate_limit_burst",
                      "rate_limit_per_key must not be negative, rate_limit_burst at least 1");
  }
  if (config.failed_auth_per_minute < 0) {
    return bad_option("failed_auth_per_minute", "failed_auth_per_minute must not be negative");
  }
  if (config.shutdown_grace < milliseconds{0}) {
    return bad_option("shutdown_grace", "shutdown_grace must not be negative");
  }
  if (config.create_wait <= milliseconds{0}) {
    return bad_option("create_wait", "create_wait must be above 0");
  }
  if (config.unreachable_after <= milliseconds{0} || config.lost_after < config.unreachable_after) {
    return bad_option("lost_after",
                      "lost_after must be at least unreachable_after, and both above 0");
  }
  if (config.worker_credential_ttl <= std::chrono::seconds{0}) {
    return bad_option("worker_credential_ttl", "worker_credential_ttl must be above 0");
  }
  if (config.worker_renewal_window < std::chrono::seconds{0}) {
    return bad_option("worker_renewal_window", "worker_renewal_window must not be negative");
  }
  return {};
}

/// The deployment's own facts: made once, on an empty store. The key's file is written before the
/// store knows the key, so that a crash between the two only makes another one.
Result<std::string> found_deployment(store::Store& store, const std::string& state_dir,
                                     WallTime now) {
  std::string id;
  const Status read = store.read([&](store::Tx& tx) -> Status {
    auto setting = tx.setting("controller_id");
    if (!setting) {
      return setting.error();
    }
    id = std::move(*setting);
    return {};
  });
  if (!read) {
    return read.error();
  }
  if (!id.empty()) {
    return id;
  }
  id = "c-" + system_random().text(kControllerIdChars, kBase36);
  const auto key = store::make_credential("op", system_random());
  if (auto kept = control::write_secret_file(state_dir + "/operator.key", key.text + "\n"); !kept) {
    return kept.error();
  }
  store::CredentialRow row{key.name.id, key.name.kind, key.secret_hash};
  row.name = "first operator key";
  row.created = now;
  const Status written = store.write([&](store::Tx& tx) -> Status {
    if (auto set = tx.set_setting("controller_id", id); !set) {
      return set;
    }
    return tx.insert(row);
  });
  if (!written) {
    return written.error();
  }
  return id;
}

}  // namespace

struct Controller::Impl {
  Impl(ControllerConfig config_in, Clock& clock, EventSink& events, io::Fd lock_in,
       std::shared_ptr<control::Metrics> metrics_in, std::unique_ptr<store::Store> store_in,
       std::string id, std::optional<store::SecretsKey> key)
      : config(std::move(config_in)),
        secrets_key(key),
        lock(std::move(lock_in)),
        metrics(std::move(metrics_in)),
        store(std::move(store_in)),
        pool(kPoolThreads, kPoolQueue),
        roster(config, clock, *store),
        context{config, clock,  events,        *store,   loop,
                pool,   roster, std::move(id), *metrics, secrets_key ? &*secrets_key : nullptr} {
    store->on_change([this](const std::vector<std::string>& workers) {
      for (const std::string& worker : workers) {
        roster.changed(worker);
      }
    });
    fleet.set_hooks({[this](const std::string& worker, std::uint64_t epoch) {
                       deliverer.attached(worker, epoch);
                     },
                     [this](const std::string& worker, std::uint64_t epoch) {
                       deliverer.detached(worker, epoch);
                     }});
    api.open("GET", "/healthz", [] { return net::json_response(200, R"({"status":"ok"})"); });
    api.open("GET", "/openapi.json",
             [] { return net::json_response(200, std::string(control::openapi_document())); });
    for (const auto add :
         {control::add_create_route, control::add_sandbox_routes, control::add_egress_routes,
          control::add_secret_routes, control::add_isolation_route, control::add_fleet_routes,
          control::add_join_token_routes, control::add_key_routes,
          control::add_sandbox_token_routes, control::add_workspace_routes,
          control::add_worker_routes, control::add_audit_routes, control::add_approval_routes}) {
      add(api, services);
    }
    api.check_complete();
  }
  ~Impl() { end_threads(); }

  Status listen() {
    net::FrontOptions options;
    options.address = config.listen_address;
    options.port = config.port;
    options.max_connections = config.max_connections;
    options.max_body_bytes = config.max_body_bytes;
    options.http.observer =
        std::make_shared<control::Watch>(metrics);  // Shared with its connections.
    auto opened = net::Front::listen(
        loop, options, server,
        [this](const std::shared_ptr<io::HttpExchange>& exchange, const std::string& remote) {
          return gateway.take(exchange, remote);
        });
    if (!opened) {
      return opened.error();
    }
    front = std::move(*opened);
    return config.metrics_address.empty() ? Status{} : listen_for_monitors();
  }

  Status listen_for_monitors() {
    auto opened = net::OpsServer::listen(
        loop, config.metrics_address, config.metrics_port,
        {[this](net::OpsServer::Done done) { report.write_metrics(std::move(done)); },
         [this](net::OpsServer::Done done) { report.tell_readiness(stopping, std::move(done)); }});
    if (!opened) {
      return opened.error();
    }
    ops = std::move(*opened);
    return {};
  }

  /// Stop accepting, stop giving out work, let calls and streams end, answer who still waits, say
  /// goodbye to the workers, end.
  void begin_stop() {
    if (std::exchange(stopping, true)) {
      return;
    }
    front->drain();
    gateway.drain();
    deliverer.stop_claiming();
    sweep.stop();
    audit.stop();
    watch.stop();
    const milliseconds goodbye = std::min(kGoodbye, config.shutdown_grace / 4);
    await_calls(Instant::clock::now() + config.shutdown_grace - goodbye, goodbye);
  }

  void await_calls(Instant deadline, milliseconds goodbye) {
    const bool idle = front->calls() == 0 && gateway.under_way() == 0;
    if (!idle && Instant::clock::now() < deadline) {
      loop.run_after(kLook, [this, deadline, goodbye] { await_calls(deadline, goodbye); });
      return;
    }
    deliverer.stop();
    gateway.shut_down();
    waiters.shut_down();
    fleet.shut_down(goodbye);
    await_workers(Instant::clock::now() + goodbye);
  }

  /// At least one more turn, so that the last answers leave.
  void await_workers(Instant deadline) {
    loop.run_after(kLook, [this, deadline] {
      if (fleet.size() == 0 || Instant::clock::now() >= deadline) {
        loop.stop();
      } else {
        await_workers(deadline);
      }
    });
  }

  void end_threads() {
    server.stop();
    pool.stop();
    audit.flush();
    deliverer.stop();
    fleet.clear();
  }

  ControllerConfig config;
  const std::optional<store::SecretsKey> secrets_key;
  io::Fd lock;
  std::shared_ptr<control::Metrics> metrics;  // Shared with connections, which the loop ends last.
  std::unique_ptr<store::Store> store;
  io::EventLoop loop;
  control::Pool pool;
  control::Roster roster;
  control::Context context;
  control::AuditKeeper audit{context};
  control::Authenticator authenticator{context, audit};
  control::Waiters waiters{loop};
  control::Fleet fleet{context};
  control::Deliverer deliverer{context, fleet, waiters};
  control::Services services{context, authenticator, waiters, fleet, deliverer, audit};
  net::ApiServer server;
  control::Api api{server, services};
  control::Gateway gateway{services};
  control::Sweep sweep{services};
  control::Report report{services, gateway};
  control::CredentialWatch watch{context, fleet};
  std::unique_ptr<net::Front> front;
  std::unique_ptr<net::OpsServer> ops;
  bool stopping = false;
};

Controller::Controller(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Controller::~Controller() = default;

Result<std::unique_ptr<Controller>> Controller::create(ControllerConfig config, Clock& clock,
                                                       EventSink& events) {
  if (auto good = check_config(config); !good) {
    return good.error();
  }
  std::optional<store::SecretsKey> key;
  if (!config.secrets_key_file.empty()) {
    auto loaded = store::SecretsKey::load(config.secrets_key_file);
    if (!loaded) {
      return loaded.error();
    }
    key = *loaded;
  }
  auto lock = control::open_state_dir(config.state_dir);
  if (!lock) {
    return lock.error();
  }
  auto metrics = std::make_shared<control::Metrics>();  // Shared: see Impl.
  auto store = store::open_sqlite(config.state_dir + "/controller.db",
                                  {&metrics->store_writes, &metrics->store_groups});
  if (!store) {
    return store.error();
  }
  auto id = found_deployment(**store, config.state_dir, clock.now());
  if (!id) {
    return id.error();
  }
  auto impl = std::make_unique<Impl>(std::move(config), clock, events, std::move(*lock),
                                     std::move(metrics), std::move(*store), std::move(*id), key);
  if (auto loaded = impl->roster.load(); !loaded) {
    return loaded.error();
  }
  if (auto listening = impl->listen(); !listening) {
    return listening.error();
  }
  return std::unique_ptr<Controller>(new Controller(std::move(impl)));
}

std::uint16_t Controller::port() const { return impl_->front->port(); }
std::uint16_t Controller::metrics_port() const { return impl_->ops ? impl_->ops->port() : 0; }

Status Controller::run() {
  Impl& impl = *impl_;
  impl.server.start(impl.config.api_threads, impl.config.api_queue);
  impl.sweep.start();
  impl.report.start();
  impl.audit.start();
  impl.watch.start();
  impl.context.events.tell(
      {Severity::kInfo,
       "controller_started",
       {},
       {{"controller", impl.context.controller_id}, {"port", std::to_string(impl.front->port())}}});
  impl.loop.run();
  impl.end_threads();
  impl.context.events.tell({Severity::kInfo, "controller_stopped"});
  return {};
}

void Controller::stop() {
  impl_->loop.post([impl = impl_.get()] { impl->begin_stop(); });
}

}  // namespace sandboxkit
