#pragma once

#include "sandboxkit/clock.h"

#include "json/value.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sandboxkit::guest {

/// Where the kernel says what the sandbox uses; tests point it elsewhere.
struct MetricSources {
  std::string cgroup = "/sys/fs/cgroup";
  std::string proc = "/proc";
  std::string root = "/";
};

/// What GET /metrics answers: from cgroup v2, v1, or /proc when neither is mounted.
/// Source: design of the E2B surface, 4.5.
class Metrics {
 public:
  explicit Metrics(MetricSources sources) : sources_(std::move(sources)) {}

  /// CPU use is of the time since the call before this one.
  json::Value read(WallTime now);

 private:
  struct Memory {
    std::uint64_t total = 0;
    std::uint64_t used = 0;
    std::uint64_t cache = 0;
  };
  Memory memory() const;
  std::optional<double> cpu_seconds() const;
  double cpu_limit() const;
  std::optional<std::string> text(const std::string& path) const;
  std::optional<std::uint64_t> number(const std::string& path) const;
  std::optional<std::uint64_t> field(const std::string& path, std::string_view name) const;

  const MetricSources sources_;
  std::optional<double> last_cpu_;
  WallTime last_time_{};
};

}  // namespace sandboxkit::guest
