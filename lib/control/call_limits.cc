#include "control/call_limits.h"

#include "base/random.h"

#include <utility>

namespace sandboxkit::control {
namespace {

policy::RateLimit key_limit(const ControllerConfig& config) {
  return {static_cast<double>(config.rate_limit_per_key),
          static_cast<double>(config.rate_limit_burst)};
}

policy::RateLimit failure_limit(const ControllerConfig& config) {
  const auto a_minute = static_cast<double>(config.failed_auth_per_minute);
  return {a_minute / 60, a_minute};
}

policy::RateTable table(policy::RateLimit limit) {
  return {limit, Limits::kSets, system_random().next_u64()};
}

}  // namespace

Limits::Limits(const ControllerConfig& config)
    : keys_(table(key_limit(config))),
      workers_(table(kWorker)),
      failures_(table(failure_limit(config))) {}

std::optional<Limits::Excess> Limits::before_look_up(const std::string& address,
                                                     const std::string& id, WallTime now) {
  const auto wait = failures_.with([key = policy::rate_key(address), now](const auto& failures) {
    return failures.wait(key, now);
  });
  if (!wait || known_.with([&](const auto& known) { return known.contains(id); })) {
    return std::nullopt;
  }
  return Excess{*wait, "failed_auth_per_minute"};
}

void Limits::failed(const std::string& address, WallTime now) {
  failures_.with(
      [key = policy::rate_key(address), now](auto& failures) { failures.take(key, now); });
}

void Limits::succeeded(const std::string& id) {
  known_.with([&](auto& known) {
    if (known.size() >= kMaxKnown) {
      known.clear();
    }
    known.insert(id);
  });
}

std::optional<Limits::Excess> Limits::take(const std::string& id, bool is_worker, WallTime now) {
  auto& table = is_worker ? workers_ : keys_;
  const auto wait = table.with([&](auto& buckets) { return buckets.take(id, now); });
  if (!wait) {
    return std::nullopt;
  }
  return Excess{*wait, is_worker ? "the worker's fixed rate" : "rate_limit_per_key"};
}

}  // namespace sandboxkit::control
