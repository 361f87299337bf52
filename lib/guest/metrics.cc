#include "guest/metrics.h"

#include "base/text.h"
#include "guest/small_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <sys/statvfs.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

constexpr std::size_t kMaxTextBytes = 64 * 1024;
constexpr std::uint64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kKibibyte = 1024;
constexpr double kMicrosecond = 1e-6;
constexpr double kNanosecond = 1e-9;

}  // namespace

std::optional<std::string> Metrics::text(const std::string& path) const {
  auto read = read_small_file(path, kMaxTextBytes);
  return read ? std::optional(std::string(trim(*read))) : std::nullopt;
}

std::optional<std::uint64_t> Metrics::number(const std::string& path) const {
  const auto read = text(path);
  return read ? parse_decimal(*read, kMaxNumber) : std::nullopt;
}

/// The number behind `name` in lines of `name number` or `name: number kB`.
std::optional<std::uint64_t> Metrics::field(const std::string& path, std::string_view name) const {
  const std::string whole = text(path).value_or("");
  for (std::string_view line : split(whole, '\n')) {
    if (!line.starts_with(name)) {
      continue;
    }
    line.remove_prefix(name.size());
    if (line.empty() || (line.front() != ' ' && line.front() != ':')) {
      continue;
    }
    line = trim(line.substr(1));
    return parse_decimal(line.substr(0, line.find(' ')), kMaxNumber);
  }
  return std::nullopt;
}

Metrics::Memory Metrics::memory() const {
  const std::string meminfo = sources_.proc + "/meminfo";
  const std::uint64_t machine = field(meminfo, "MemTotal").value_or(0) * kKibibyte;
  Memory memory{.total = machine};
  const std::string v1 = sources_.cgroup + "/memory";
  if (const auto used = number(sources_.cgroup + "/memory.current")) {
    memory.used = *used;
    memory.total = number(sources_.cgroup + "/memory.max").value_or(machine);  // or `max`
    memory.cache = field(sources_.cgroup + "/memory.stat", "file").value_or(0);
  } else if (const auto used_v1 = number(v1 + "/memory.usage_in_bytes")) {
    memory.used = *used_v1;
    memory.total = number(v1 + "/memory.limit_in_bytes").value_or(machine);
    memory.cache = field(v1 + "/memory.stat", "total_cache").value_or(0);
  } else {
    const std::uint64_t available = field(meminfo, "MemAvailable").value_or(0) * kKibibyte;
    memory.used = machine - std::min(available, machine);
    memory.cache = field(meminfo, "Cached").value_or(0) * kKibibyte;
  }
  memory.total = machine == 0 ? memory.total : std::min(memory.total, machine);
  memory.used -= std::min(memory.cache, memory.used);  // what the kernel gives back when asked
  return memory;
}

std::optional<double> Metrics::cpu_seconds() const {
  if (const auto used = field(sources_.cgroup + "/cpu.stat", "usage_usec")) {
    return static_cast<double>(*used) * kMicrosecond;
  }
  for (const char* folder : {"/cpuacct", "/cpu,cpuacct"}) {
    if (const auto used = number(sources_.cgroup + folder + "/cpuacct.usage")) {
      return static_cast<double>(*used) * kNanosecond;
    }
  }
  return std::nullopt;
}

double Metrics::cpu_limit() const {
  const double machine = static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  std::optional<std::uint64_t> quota;
  std::optional<std::uint64_t> period;
  if (const auto v2 = text(sources_.cgroup + "/cpu.max")) {
    const auto parts = split(*v2, ' ');
    quota = parse_decimal(parts.front(), kMaxNumber);  // or `max`
    period = parse_decimal(parts.back(), kMaxNumber);
  } else {
    quota = number(sources_.cgroup + "/cpu/cpu.cfs_quota_us");  // or -1
    period = number(sources_.cgroup + "/cpu/cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0) {
    return machine;
  }
  return std::min(machine, static_cast<double>(*quota) / static_cast<double>(*period));
}

json::Value Metrics::read(WallTime now) {
  const Memory used = memory();
  const double limit = cpu_limit();
  const auto cpu = cpu_seconds();
  double percent = 0;
  const double seconds = std::chrono::duration<double>(now - last_time_).count();
  if (cpu && last_cpu_ && seconds > 0) {
    percent = std::clamp((*cpu - *last_cpu_) / seconds / limit * 100, 0.0, 100.0);
  }
  last_cpu_ = cpu;
  last_time_ = now;

  struct statvfs disk {};
  const bool known = ::statvfs(sources_.root.c_str(), &disk) == 0;
  const std::uint64_t disk_total = known ? disk.f_blocks * disk.f_frsize : 0;
  const std::uint64_t disk_used = known ? (disk.f_blocks - disk.f_bfree) * disk.f_frsize : 0;
  const auto whole = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  return json::Object{
      {"ts",
       std::int64_t{
           std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count()}},
      {"cpu_count", static_cast<std::int64_t>(std::ceil(limit))},
      {"cpu_used_pct", std::round(percent * 100) / 100},
      {"mem_total", whole(used.total)},
      {"mem_used", whole(used.used)},
      {"mem_cache", whole(used.cache)},
      {"mem_total_mib", whole(used.total / kMebibyte)},
      {"mem_used_mib", whole(used.used / kMebibyte)},
      {"disk_used", whole(disk_used)},
      {"disk_total", whole(disk_total)}};
}

}  // namespace sandboxkit::guest
