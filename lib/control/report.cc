#include "control/report.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace sandboxkit::control {
namespace {

using Instant = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kLagInterval{500};
constexpr const char* kBusy = "too much waits for the store";

}  // namespace

void Report::start() {
  measure_loop();
  const std::string& address = services_.context.config.metrics_address;
  if (!address.empty() && !net::OpsServer::is_loopback(address)) {
    services_.context.events.tell({Severity::kWarning,
                                   "metrics_exposed",
                                   "metrics need no credential, and this is no loopback address",
                                   {{"address", address}}});
  }
}

void Report::measure_loop() {
  const Instant due = Instant::clock::now() + kLagInterval;
  services_.context.loop.run_after(kLagInterval, [this, due] {
    const auto late =
        std::chrono::duration_cast<std::chrono::microseconds>(Instant::clock::now() - due);
    services_.context.metrics.loop_lag.observe(
        static_cast<std::uint64_t>(std::max<std::int64_t>(late.count(), 0)));
    measure_loop();
  });
}

void Report::write_metrics(net::OpsServer::Done done) {
  Exposition out;
  services_.context.metrics.write(out);
  write_now(out);
  add_process_metrics(out);
  // The store is asked on another thread; without it the rest is told all the same.
  const std::string text = out.take();
  const auto ask = [this, text, done] {
    Exposition more;
    const Status ignored = services_.context.store.read([&](store::Tx& tx) -> Status {
      auto counts = tx.counts();
      if (counts) {
        write_counts(more, *counts);
      }
      return counts ? Status{} : Status(counts.error());
    });
    static_cast<void>(ignored);
    done(text + more.take());
  };
  if (!services_.context.pool.post(ask)) {
    done(text);
  }
}

void Report::write_now(Exposition& out) const {
  std::map<std::string_view, double> workers;
  for (const Roster::Line& line : services_.context.roster.lines()) {
    ++workers[name_of(line.state)];
  }
  out.family("sandboxkit_workers", "gauge", "Workers by state.");
  for (const auto& [state, count] : workers) {
    out.sample({{"state", state}}, count);
  }
  out.family("sandboxkit_tunnels", "gauge", "Workers that are connected.");
  out.sample(static_cast<double>(services_.fleet.size()));
  out.family("sandboxkit_streams", "gauge", "Open streams to sandboxes.");
  out.sample(static_cast<double>(gateway_.open_streams()));
  out.family("sandboxkit_deliveries_under_way", "gauge", "Orders sent and not answered.");
  out.sample(static_cast<double>(services_.deliverer.under_way()));
}

void Report::write_counts(Exposition& out, const store::Tx::Counts& counts) {
  out.family("sandboxkit_sandboxes", "gauge", "Sandboxes by state; ended ones for a week.");
  for (const auto& [state, count] : counts.sandboxes) {
    out.sample({{"state", state}}, static_cast<double>(count));
  }
  out.family("sandboxkit_deliveries_queued", "gauge", "Orders that wait, sent or not.");
  out.sample(static_cast<double>(counts.queued_deliveries));
}

void Report::tell_readiness(bool stopping, net::OpsServer::Done done) {
  if (stopping) {
    return done("stopping");
  }
  const auto ask = [this, done] {
    const Status read = services_.context.store.read([](store::Tx& tx) -> Status {
      const auto id = tx.setting("controller_id");
      return id ? Status{} : Status(id.error());
    });
    done(read ? std::string() : read.error().message);
  };
  if (!services_.context.pool.post(ask)) {
    done(kBusy);
  }
}

}  // namespace sandboxkit::control
