#pragma once

#include "sandboxkit/export.h"
#include "sandboxkit/result.h"

#include <cstdint>
#include <string>

namespace sandboxkit {

/// What a walk along the audit log's chain of hashes found.
struct AuditCheck {
  std::int64_t rows = 0;      ///< Rows that were read up to the end or the first break.
  std::int64_t head_seq = 0;  ///< Number and hash of the last row: worth copying elsewhere.
  std::string head_hash{};
  std::int64_t broken_row = 0;  ///< The first row that does not hold; only with `problem`.
  std::string problem{};        ///< How it is broken; empty: the chain is intact.
  bool intact() const { return problem.empty(); }
};

/// Walks the audit log of a controller's state folder, also while the controller runs; changes
/// nothing. A changed, removed, inserted or reordered row is found, and so is an end that was cut
/// off. Whoever may write the file can make another, whole chain: that shows against a head that
/// was noted elsewhere.
///
/// Errors: kNotFound when there is no store in the folder; kUnavailable `store_unavailable` when it
/// cannot be read or is older than the chain.
/// Blocking: reads the whole log from the disk.
/// Source: architecture, section 8.
SANDBOXKIT_API Result<AuditCheck> verify_audit(const std::string& state_dir);

}  // namespace sandboxkit
