// Attack 20 of the wall: the largest policy against the longest names, a million decisions each.
// The first line is an ordinary name; a row far above it would be a way to slow the proxy down.

#include "sandboxkit/egress.h"

#include "tests/bench/bench.h"

#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace sandboxkit;

constexpr int kDecisions = 1'000'000;
constexpr std::size_t kLongestName = 253;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// `tail` with as many labels before it as a name holds.
std::string filled(std::string tail, const std::string& label) {
  while (tail.size() + label.size() + 1 <= kLongestName) {
    tail = label + "." + tail;
  }
  return tail;
}

void measure(const char* what, const EgressPolicy& policy, const std::string& host, bool expected) {
  const EgressTarget target = EgressTarget::from_authority(host + ":443").value();
  int allowed = 0;
  const double start = cpu_seconds();
  for (int i = 0; i < kDecisions; ++i) {
    allowed += policy.decide(target).allowed ? 1 : 0;
  }
  const double nanoseconds = (cpu_seconds() - start) * 1e9 / kDecisions;
  std::printf("%-58s %3zu bytes %8.0f ns a decision\n", what, host.size(), nanoseconds);
  if (allowed != (expected ? kDecisions : 0)) {
    bench::give_up("a decision was wrong");
  }
}

}  // namespace

int main() {
  std::vector<std::string> short_rules;
  std::vector<std::string> long_rules;
  for (std::size_t i = 0; i < EgressPolicy::kMaxDomains; ++i) {
    const std::string name = "n" + std::to_string(i);
    short_rules.push_back((i % 2 == 0 ? "*." : "") + name + ".test");
    // As long as the host below and unlike it in the first label only: nothing ends early.
    long_rules.push_back("*." + name + filled("test", "a").substr(12));
  }
  const EgressPolicy ordinary = EgressPolicy::create(short_rules, {}).value();
  const EgressPolicy long_names = EgressPolicy::create(long_rules, {}).value();
  measure("256 short entries, an ordinary name, allowed", ordinary, "packages.n42.test", true);
  measure("256 short entries, an ordinary name, denied", ordinary, "packages.n43.test", false);
  measure("256 short entries, the longest name", ordinary, filled("n43.test", "a"), false);
  measure("256 long entries, the longest name of the most labels", long_names, filled("test", "a"),
          false);
  measure("256 long entries, the longest name of the fewest labels", long_names,
          filled("test", std::string(61, 'a')), false);
}
