#include "local/local_stats.h"

#include "base/text.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace sandboxkit::local {
namespace {

constexpr std::uint64_t kMaxPid = 1 << 22;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// One line of /proc/PID/stat.
struct Process {
  std::int64_t pid = 0;
  std::int64_t parent = 0;
  double cpu_seconds = 0;
  std::int64_t memory_bytes = 0;
};

std::optional<Process> read_process(std::int64_t pid) {
  // proc(5): fields are counted behind the name, which may hold anything, and its last bracket.
  constexpr std::size_t kParent = 1;
  constexpr std::size_t kUserTime = 11;
  constexpr std::size_t kSystemTime = 12;
  constexpr std::size_t kResidentPages = 21;
  const std::string text = text_of("/proc/" + std::to_string(pid) + "/stat");
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos || bracket + 2 > text.size()) {
    return std::nullopt;
  }
  const auto fields = split(std::string_view(text).substr(bracket + 2), ' ');
  if (fields.size() <= kResidentPages) {
    return std::nullopt;
  }
  const auto ticks = static_cast<double>(number(fields[kUserTime]) + number(fields[kSystemTime]));
  return Process{pid, number(fields[kParent]), ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)),
                 number(fields[kResidentPages]) * ::sysconf(_SC_PAGESIZE)};
}

std::vector<Process> all_processes() {
  std::vector<Process> found;
  std::error_code problem;
  std::filesystem::directory_iterator entry("/proc", problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    const auto pid = parse_decimal(entry->path().filename().string(), kMaxPid);
    if (const auto process = pid ? read_process(static_cast<std::int64_t>(*pid)) : std::nullopt) {
      found.push_back(*process);
    }
  }
  return found;
}

}  // namespace

SandboxStats stats_of_box(int first) {
  SandboxStats stats;
  const std::vector<Process> all = all_processes();
  std::vector<std::int64_t> left{first};
  std::set<std::int64_t> seen;
  while (!left.empty()) {
    const std::int64_t pid = left.back();
    left.pop_back();
    if (!seen.insert(pid).second) {
      continue;
    }
    for (const Process& each : all) {
      if (each.pid == pid) {
        stats.cpu_seconds += each.cpu_seconds;
        stats.memory_bytes += each.memory_bytes;
        ++stats.processes;
      } else if (each.parent == pid) {
        left.push_back(each.pid);
      }
    }
  }
  return stats;
}

}  // namespace sandboxkit::local
