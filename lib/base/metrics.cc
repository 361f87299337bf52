#include "base/metrics.h"

#include "base/check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <unistd.h>

namespace sandboxkit {
namespace {

std::string number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) {
      out += '\\';
    }
    out += c;
  }
}

}  // namespace

Histogram::Histogram(std::span<const std::uint64_t> bounds) : bounds_(bounds) {
  SANDBOXKIT_CHECK(bounds.size() <= kMaxBounds && std::ranges::is_sorted(bounds),
                   "bounds are few and rise");
}

void Histogram::observe(std::uint64_t value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  counts_[static_cast<std::size_t>(bound - bounds_.begin())].add();
  sum_.add(value);
}

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += "# HELP " + name_ + " ";
  append_escaped(text_, help, false);
  text_ += "\n# TYPE " + name_ + " " + std::string(type) + "\n";
}

void Exposition::sample(const Labels& labels, double value) { line("", labels, value); }

void Exposition::line(std::string_view suffix, const Labels& labels, double value) {
  text_ += name_;
  text_ += suffix;
  const char* before = "{";
  for (const auto& [name, text] : labels) {
    text_ += before;
    text_ += name;
    text_ += "=\"";
    append_escaped(text_, text, true);
    text_ += '"';
    before = ",";
  }
  text_ += labels.empty() ? " " : "} ";
  text_ += number(value) + "\n";
}

void Exposition::histogram(const Labels& labels, const Histogram& histogram, double unit) {
  // Buckets are read one after the other while others count: the total is what was read of them, so
  // that the last bucket and `_count` agree.
  std::uint64_t total = 0;
  const auto bounds = histogram.bounds();
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    total += histogram.count_of(i);
    const std::string bound =
        i == bounds.size() ? "+Inf" : number(static_cast<double>(bounds[i]) * unit);
    Labels with_bound = labels;
    with_bound.emplace_back("le", bound);
    line("_bucket", with_bound, static_cast<double>(total));
  }
  line("_sum", labels, static_cast<double>(histogram.sum()) * unit);
  line("_count", labels, static_cast<double>(total));
}

void add_process_metrics(Exposition& out) {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  out.family("process_resident_memory_bytes", "gauge", "Resident memory.");
  out.sample(resident * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  std::error_code problem;
  const std::filesystem::directory_iterator open("/proc/self/fd", problem);
  out.family("process_open_fds", "gauge", "Open file descriptors.");
  out.sample(problem ? 0 : static_cast<double>(std::distance(begin(open), end(open))));
}

}  // namespace sandboxkit
