#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sandboxkit::policy {

/// What a create wants, and what stands already: live sandboxes and what they reserve.
struct Usage {
  std::int64_t sandboxes = 0;
  double cpu_cores = 0;
  std::int64_t memory_mb = 0;
};

/// The most that may be in use at once. Negative: no limit. 0: nothing.
struct Budget {
  std::int64_t sandboxes = -1;
  double cpu_cores = -1;
  std::int64_t memory_mb = -1;
};

/// One budget that a create must stay inside of.
struct Allowance {
  std::string_view scope;  ///< `workspace`, `key`: what the refusal names.
  Budget budget{};
  Usage used{};
};

/// Why a create is not admitted: in what, whose, and the numbers.
struct Excess {
  std::string_view resource;  ///< `sandboxes`, `cpu_cores`, `memory_mb`.
  std::string_view scope;
  double limit = 0;
  double used = 0;
  double asked = 0;
};

/// The first budget that `wanted` would break; nullopt when it is admitted. The order is that of
/// `allowances`, and in each one sandboxes, cores, memory.
///
/// Exact only when nothing changes between this and the write that takes what was admitted: call it
/// inside of the create's transaction. Thread-safety: pure.
std::optional<Excess> first_excess(const Usage& wanted, std::span<const Allowance> allowances);

}  // namespace sandboxkit::policy
