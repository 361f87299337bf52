#include "policy/admission.h"

namespace sandboxkit::policy {
namespace {

/// Sums of decimal fractions (0.1 + 0.2) must not cost the last core.
constexpr double kRoundingSlack = 1e-9;

/// Negated, so that a NaN is never admitted.
bool breaks(double limit, double used, double asked) {
  return !(limit < 0) && !(used + asked <= limit + kRoundingSlack);
}

}  // namespace

std::optional<Excess> first_excess(const Usage& wanted, std::span<const Allowance> allowances) {
  for (const Allowance& each : allowances) {
    const Excess dimensions[] = {
        {"sandboxes", each.scope, static_cast<double>(each.budget.sandboxes),
         static_cast<double>(each.used.sandboxes), static_cast<double>(wanted.sandboxes)},
        {"cpu_cores", each.scope, each.budget.cpu_cores, each.used.cpu_cores, wanted.cpu_cores},
        {"memory_mb", each.scope, static_cast<double>(each.budget.memory_mb),
         static_cast<double>(each.used.memory_mb), static_cast<double>(wanted.memory_mb)},
    };
    for (const Excess& excess : dimensions) {
      if (breaks(excess.limit, excess.used, excess.asked)) {
        return excess;
      }
    }
  }
  return std::nullopt;
}

}  // namespace sandboxkit::policy
