#include "policy/hardening.h"

#include <algorithm>
#include <array>

namespace sandboxkit::policy {
namespace {

/// What setuid programs and package managers need, and nothing that reaches the network's lower
/// layers or the kernel.
constexpr std::array<std::string_view, 7> kSudoCapabilities = {
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"};

constexpr std::array<std::string_view, 3> kSharingRuntimes = {"runc", "crun",
                                                              "io.containerd.runc.v2"};

}  // namespace

Hardening hardening_of(HardeningProfile profile) {
  switch (profile) {
    case HardeningProfile::kHardened:
      return {"1000:1000", true, {}};
    case HardeningProfile::kSudo:
      return {"0:0", false, kSudoCapabilities};
  }
  return {"1000:1000", true, {}};
}

bool shares_kernel(std::string_view runtime) {
  return std::ranges::find(kSharingRuntimes, runtime) != kSharingRuntimes.end();
}

}  // namespace sandboxkit::policy
