#include "work/report.h"

#include <map>
#include <string_view>

namespace sandboxkit::work {
namespace {

constexpr double kMicro = 1e-6;

double number(bool fact) { return fact ? 1 : 0; }

}  // namespace

std::string Report::metrics() const {
  Exposition out;
  out.family("sandboxkit_build_info", "gauge", "The version that runs.");
  out.sample({{"version", SANDBOXKIT_VERSION}}, 1);
  std::map<std::string_view, double> sandboxes;
  for (const SandboxReport& report : parts_.orders.inventory()) {
    ++sandboxes[name_of(report.state)];
  }
  out.family("sandboxkit_worker_sandboxes", "gauge", "Sandboxes by state.");
  for (const auto& [state, count] : sandboxes) {
    out.sample({{"state", state}}, count);
  }
  out.family("sandboxkit_worker_driver_ok", "gauge",
             "Whether the last probe of the driver went well.");
  out.sample(number(parts_.health.capabilities() && parts_.health.problem().empty()));
  out.family("sandboxkit_worker_tunnel_up", "gauge", "Whether the tunnel stands.");
  out.sample(number(parts_.uplink.is_up()));
  out.family("sandboxkit_worker_heartbeat_failures_total", "counter",
             "Heartbeats without an answer.");
  out.sample(static_cast<double>(parts_.heartbeat.failures()));
  out.family("sandboxkit_worker_create_seconds", "histogram", "What the driver took for a create.");
  out.histogram({}, parts_.orders.create_times(), kMicro);
  add_process_metrics(out);
  return out.take();
}

std::string Report::lack() const {
  if (!parts_.uplink.is_up()) {
    return "the tunnel to the controller does not stand";
  }
  if (!parts_.health.capabilities()) {
    return "the driver has not answered yet";
  }
  return parts_.health.problem();
}

}  // namespace sandboxkit::work
