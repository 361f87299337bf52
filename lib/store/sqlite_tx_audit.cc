#include "store/audit_chain.h"
#include "store/rows.h"
#include "store/sqlite_tx.h"

#include <algorithm>

namespace sandboxkit::store {
namespace {

constexpr std::size_t kMaxPage = 1'000;
// A purge holds the writer: what is left over goes with the next one.
constexpr std::int64_t kMaxPurge = 5'000;

/// Nothing is done that cannot be written down.
Error chain_is_broken() {
  return store_unavailable(
      "the audit log's head does not fit its rows; see `sandboxkit audit verify`");
}

}  // namespace

Status SqliteTx::insert(const AuditRow& row) {
  const auto text = setting(kAuditHead);
  if (!text) {
    return text.error();
  }
  const auto head = audit_mark_from(*text);
  if (!head) {
    return chain_is_broken();
  }
  AuditRow chained = row;
  chained.seq = head->seq + 1;
  chained.hash = audit_hash(head->hash, chained);
  if (auto inserted = insert_row(connection_, chained); !inserted) {
    return inserted.error().code == ErrorCode::kConflict ? chain_is_broken() : inserted.error();
  }
  return set_setting(kAuditHead, text_of({chained.seq, chained.hash}));
}

Result<std::vector<AuditRow>> SqliteTx::audit(const std::string& tenant, std::int64_t after,
                                              std::size_t limit) {
  return select_all<AuditRow>(connection_, "WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?",
                              tenant, after, static_cast<std::int64_t>(std::min(limit, kMaxPage)));
}

Result<std::optional<std::int64_t>> SqliteTx::audit_seq(const std::string& tenant,
                                                        const std::string& hash) {
  const auto row = select_one<AuditRow>(connection_, "WHERE hash = ? AND tenant = ?", hash, tenant);
  if (!row) {
    return row.error();
  }
  return *row ? std::optional((*row)->seq) : std::nullopt;
}

Result<std::int64_t> SqliteTx::prune_audit(WallTime before) {
  AuditMark last;
  bool old = true;
  const auto note_row = [&](Query& query) {
    AuditMark mark;
    WallTime time{};
    query.read(mark.seq);
    query.read(mark.hash);
    query.read(time);
    // A clock that was set back leaves older rows behind younger ones: they wait for those.
    old = old && time < before;
    last = old ? mark : last;
  };
  if (auto status = connection_.each("SELECT seq, hash, time FROM audit ORDER BY seq LIMIT ?",
                                     note_row, kMaxPurge);
      !status) {
    return status.error();
  }
  if (last.seq == 0) {
    return std::int64_t{0};
  }
  if (auto set = set_setting(kAuditAnchor, text_of(last)); !set) {
    return set.error();
  }
  return connection_.run("DELETE FROM audit WHERE seq <= ?", last.seq);
}

}  // namespace sandboxkit::store
