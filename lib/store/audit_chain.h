#pragma once

#include "sandboxkit/audit.h"

#include "store/store.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;

namespace sandboxkit::store {

/// SHA-256 in hex over the previous row's hash and every member of the row but `hash`, in the order
/// of the table. Each text stands as `<bytes>:<text>,`, so no two rows give the same input.
/// Source: architecture, section 8.
std::string audit_hash(std::string_view previous, const AuditRow& row);

/// A place in the chain, as a setting keeps it: `<seq> <hash>`.
struct AuditMark {
  std::int64_t seq = 0;
  std::string hash{};
};
std::string text_of(const AuditMark& mark);
/// An empty text is the place before the first row. nullopt: not one of ours.
std::optional<AuditMark> audit_mark_from(std::string_view text);

/// The last row that was written, and the last one that retention removed.
inline constexpr const char* kAuditHead = "audit_head";
inline constexpr const char* kAuditAnchor = "audit_anchor";

/// Walks rows in order and keeps the first break. Pure.
class AuditWalk {
 public:
  /// The texts of the two settings.
  AuditWalk(std::string_view anchor, std::string_view head);
  void take(const AuditRow& row);
  AuditCheck finish();

 private:
  void break_at(std::int64_t seq, std::string problem);

  AuditMark last_;
  AuditMark head_;
  AuditCheck check_;
};

/// Gives SQL the function `audit_hash(previous, seq, time, tenant, actor, action, target, outcome,
/// address, request)`: the schema's step chains the rows of older versions with it.
bool add_audit_hash(sqlite3* database);

}  // namespace sandboxkit::store
