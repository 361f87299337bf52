// Compiled into builds with the option `fault_points` alone.
#include "base/fault_point.h"

#include "base/check.h"
#include "base/text.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <unistd.h>

namespace sandboxkit::detail {
namespace {

constexpr std::uint64_t kMaxPass = 1'000'000;

struct Fault {
  std::size_t point = kFaultPoints.size();  // None.
  std::uint64_t pass = 1;
};

Fault fault_of_environment() {
  const char* const wanted = std::getenv("SANDBOXKIT_FAULT");
  if (wanted == nullptr || *wanted == '\0') {
    return {};
  }
  const std::string_view text(wanted);
  const std::size_t colon = text.find(':');
  const auto found = std::ranges::find(kFaultPoints, text.substr(0, colon));
  const auto pass =
      colon == std::string_view::npos ? 1 : parse_decimal(text.substr(colon + 1), kMaxPass);
  // A test that misspells its fault would see nothing die, and might call that a success.
  SANDBOXKIT_CHECK(found != kFaultPoints.end() && pass.value_or(0) > 0,
                   "the environment asks for a fault that this build does not have");
  return {static_cast<std::size_t>(found - kFaultPoints.begin()), *pass};
}

}  // namespace

void pass_fault_point(std::size_t point) {
  static const Fault fault = fault_of_environment();
  static std::atomic<std::uint64_t> passes{0};
  if (point != fault.point || ++passes != fault.pass) {
    return;
  }
  const std::string line = "fault point " + std::string(kFaultPoints[point]) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  while (true) {
    kill(getpid(), SIGKILL);
  }
}

}  // namespace sandboxkit::detail
