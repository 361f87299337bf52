#include "sandboxkit/worker.h"

#include "base/random.h"
#include "base/thread_pool.h"
#include "io/event_loop.h"
#include "json/value.h"
#include "net/ops_server.h"
#include "store/journal.h"
#include "wire/messages.h"
#include "work/credential.h"
#include "work/guest_proxy.h"
#include "work/health.h"
#include "work/heartbeat.h"
#include "work/lanes.h"
#include "work/ledger.h"
#include "work/orders.h"
#include "work/report.h"
#include "work/routes.h"
#include "work/state_dir.h"
#include "work/uplink.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace sandboxkit {
namespace {

/// Removes, questions to the driver, and upkeep. Creates have their own.
constexpr std::size_t kOtherThreads = 4;
constexpr std::size_t kQueueLimit = 1024;
constexpr std::chrono::milliseconds kSweepInterval{1'000};

std::int64_t starting_threads(const WorkerConfig& config) {
  constexpr std::int64_t kMostThreads = 256;
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t wanted = config.max_starting > 0 ? config.max_starting : cores;
  return std::clamp<std::int64_t>(wanted, 1, kMostThreads);
}

wire::HeartbeatSandbox line_of(const SandboxReport& report) {
  return {report.sandbox,    report.generation, report.state,
          report.expires_at, report.reason,     report.structure};
}

Status check(const WorkerConfig& config) {
  if (config.max_sandboxes < 1 || config.max_starting < 0) {
    return Error{ErrorCode::kInvalidArgument, "the worker's limits must be positive", "",
                 config.max_sandboxes < 1 ? "max_sandboxes" : "max_starting"};
  }
  if (config.start_lease < std::chrono::milliseconds(100)) {
    return Error{ErrorCode::kInvalidArgument, "start_lease must be at least 100 ms", "",
                 "start_lease"};
  }
  if (config.heartbeat_interval < std::chrono::milliseconds(100) ||
      config.reconcile_interval < std::chrono::milliseconds(100)) {
    return Error{ErrorCode::kInvalidArgument, "intervals of the worker are at least 100 ms", "",
                 "heartbeat_interval"};
  }
  return {};
}

}  // namespace

/// The parts, in the order in which they need each other.
struct Worker::Impl {
  Impl(WorkerConfig the_config, WorkerIdentity who, std::unique_ptr<Driver> the_driver,
       std::unique_ptr<store::Journal> the_journal, Clock& clock, EventSink& sink)
      : config(std::move(the_config)),
        driver(std::move(the_driver)),
        journal(std::move(the_journal)),
        events(sink),
        health(sink, config.start_lease),
        creates(static_cast<std::size_t>(starting_threads(config)), kQueueLimit),
        others(kOtherThreads, kQueueLimit),
        orders({who.tenant, config.max_sandboxes, config.orphan_grace}, loop, *driver, ledger,
               lanes, others, clock, events),
        routes(loop, orders, guests, *driver, others),
        credential(config.state_dir, who),
        heartbeat(loop, {config.controller_url, config.heartbeat_interval}, credential,
                  system_random(), events, [this] { return heartbeat_body(); }),
        uplink(
            loop,
            [this] {
              return net::TunnelDial{config.controller_url, credential.current()};
            },
            system_random(), events, [this](const auto& exchange) { routes.serve(exchange); },
            [this] {
              health.contact(std::chrono::steady_clock::now());
              heartbeat.soon();
            }) {}

  ~Impl() {
    // Threads use what stands below; they end first.
    heartbeat.stop();
    creates.stop();
    others.stop();
  }

  std::string heartbeat_body() const {
    wire::Heartbeat body{.facts = {.driver = health.capabilities().value_or(DriverCapabilities{})}};
    body.facts.problem = health.problem();
    body.facts.max_sandboxes = config.max_sandboxes;
    body.facts.max_starting = starting_threads(config);
    body.facts.labels = config.labels;
    body.renew = true;
    std::ranges::transform(orders.inventory(), std::back_inserter(body.sandboxes), line_of);
    return json::dump(wire::to_json(body));
  }

  /// Asks the driver what it can. The first answer starts the heartbeats: before it there is
  /// nothing that the controller should believe.
  void probe() {
    others.submit([this] {
      // Shared, because it travels back in a std::function.
      const auto answer = std::make_shared<Result<DriverCapabilities>>(driver->probe());
      loop.post([this, answer] {
        const bool news = health.probed(*answer);
        if (!std::exchange(beating, true)) {
          heartbeat.start();
        } else if (news && !*answer) {
          heartbeat.soon();
        }
      });
    });
  }

  Status listen_for_monitors() {
    auto opened = net::OpsServer::listen(
        loop, config.metrics_address, config.metrics_port,
        {[this](const net::OpsServer::Done& done) { done(report.metrics()); },
         [this](const net::OpsServer::Done& done) { done(report.lack()); }});
    if (!opened) {
      return opened.error();
    }
    ops = std::move(*opened);
    if (!net::OpsServer::is_loopback(config.metrics_address)) {
      events.tell({Severity::kWarning,
                   "metrics_exposed",
                   "metrics need no credential, and this is no loopback address",
                   {{"address", config.metrics_address}}});
    }
    return {};
  }

  void sweep_for_ever() {
    orders.sweep();
    const auto now = std::chrono::steady_clock::now();
    if (uplink.is_up()) {
      health.contact(now);
    } else if (health.is_out_of_reach(now)) {
      lanes.stop_creates();
    }
    loop.run_after(kSweepInterval, [this] { sweep_for_ever(); });
  }

  void reconcile_for_ever() {
    orders.reconcile();
    probe();  // Images come and go; the heartbeat tells which there are.
    loop.run_after(config.reconcile_interval, [this] { reconcile_for_ever(); });
  }

  const WorkerConfig config;
  io::EventLoop loop;
  const std::unique_ptr<Driver> driver;
  const std::unique_ptr<store::Journal> journal;
  EventSink& events;
  work::Health health;
  bool beating = false;
  work::Ledger ledger{*journal};
  ThreadPool creates;
  ThreadPool others;
  work::Lanes lanes{loop, creates, others};
  work::Orders orders;
  work::GuestProxy guests{loop, *driver};
  work::Routes routes;
  work::Credential credential;
  work::Heartbeat heartbeat;
  work::Uplink uplink;
  work::Report report{{orders, health, heartbeat, uplink}};
  std::unique_ptr<net::OpsServer> ops;
};

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() = default;

Result<std::unique_ptr<Worker>> Worker::create(WorkerConfig config, WorkerIdentity identity,
                                               std::unique_ptr<Driver> driver, Clock& clock,
                                               EventSink& events) {
  if (auto good = check(config); !good) {
    return good.error();
  }
  if (auto made = work::make_state_dir(config.state_dir); !made) {
    return made.error();
  }
  auto journal = store::open_sqlite_journal(config.state_dir + "/journal.db");
  if (!journal) {
    return journal.error();
  }
  auto impl = std::make_unique<Impl>(std::move(config), std::move(identity), std::move(driver),
                                     std::move(*journal), clock, events);
  Impl& it = *impl;
  it.driver->on_event([&it](const DriverEvent& event) {
    it.loop.post([&it, event] { it.orders.driver_event(event); });
  });
  it.orders.on_ended([&it](const std::string& sandbox) {
    it.guests.forget(sandbox);
    it.heartbeat.soon();
  });
  if (auto loaded = it.ledger.load(); !loaded) {
    return loaded.error();
  }
  if (auto adopted = it.orders.adopt(); !adopted) {
    return adopted.error();
  }
  if (auto open = it.config.metrics_address.empty() ? Status{} : it.listen_for_monitors(); !open) {
    return open.error();
  }
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

std::uint16_t Worker::metrics_port() const { return impl_->ops ? impl_->ops->port() : 0; }

Status Worker::run() {
  Impl& it = *impl_;
  // The tunnel first: what runs is reachable again while the driver is still being probed.
  it.uplink.start();
  it.probe();
  it.sweep_for_ever();
  it.loop.run_after(it.config.reconcile_interval, [&it] { it.reconcile_for_ever(); });
  it.loop.run();
  // Sandboxes go on; a create that is under way is undone and will be ordered again. What waits is
  // not begun: the controller sends it again, and the journal knows what has to end.
  it.lanes.stop_creates();
  it.uplink.stop();
  it.heartbeat.stop();
  it.creates.stop_now();
  it.others.stop_now();
  it.loop.run_once(io::EventLoop::Duration{0});
  return {};
}

void Worker::stop() { impl_->loop.stop(); }

}  // namespace sandboxkit
