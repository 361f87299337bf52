#include "store/audit_chain.h"

#include "base/text.h"
#include "store/credentials.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <sqlite3.h>

namespace sandboxkit::store {
namespace {

constexpr std::size_t kHashChars = 64;
constexpr int kHashArguments = 10;

void append(std::string& out, std::string_view text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
  out += ',';
}

std::string text_argument(sqlite3_value* value) {
  const auto* bytes = static_cast<const char*>(sqlite3_value_blob(value));
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
  return bytes != nullptr ? std::string(bytes, size) : std::string();
}

void hash_in_sql(sqlite3_context* context, int, sqlite3_value** values) {
  AuditRow row;
  row.seq = sqlite3_value_int64(values[1]);
  row.time = WallTime(std::chrono::milliseconds(sqlite3_value_int64(values[2])));
  row.tenant = text_argument(values[3]);
  row.actor = text_argument(values[4]);
  row.action = text_argument(values[5]);
  row.target = text_argument(values[6]);
  row.outcome = text_argument(values[7]);
  row.address = text_argument(values[8]);
  row.request = text_argument(values[9]);
  const std::string hash = audit_hash(text_argument(values[0]), row);
  sqlite3_result_text(context, hash.data(), static_cast<int>(hash.size()), SQLITE_TRANSIENT);
}

std::string rows_are_missing(std::int64_t first, std::int64_t last) {
  return first == last
             ? "row " + std::to_string(first) + " is missing"
             : "rows " + std::to_string(first) + " to " + std::to_string(last) + " are missing";
}

}  // namespace

std::string audit_hash(std::string_view previous, const AuditRow& row) {
  std::string input;
  append(input, previous);
  append(input, std::to_string(row.seq));
  append(input, std::to_string(row.time.time_since_epoch().count()));
  for (const std::string* text : {&row.tenant, &row.actor, &row.action, &row.target, &row.outcome,
                                  &row.address, &row.request}) {
    append(input, *text);
  }
  return sha256_hex(input);
}

std::string text_of(const AuditMark& mark) { return std::to_string(mark.seq) + " " + mark.hash; }

std::optional<AuditMark> audit_mark_from(std::string_view text) {
  if (text.empty()) {
    return AuditMark{};
  }
  const std::size_t blank = text.find(' ');
  const auto seq =
      parse_decimal(text.substr(0, blank), std::numeric_limits<std::int64_t>::max() - 1);
  if (!seq || blank == std::string_view::npos || text.size() != blank + 1 + kHashChars) {
    return std::nullopt;
  }
  return AuditMark{static_cast<std::int64_t>(*seq), std::string(text.substr(blank + 1))};
}

AuditWalk::AuditWalk(std::string_view anchor, std::string_view head) {
  auto first = audit_mark_from(anchor);
  auto last = audit_mark_from(head);
  if (!first || !last) {
    break_at(0,
             "the setting `" + std::string(first ? kAuditHead : kAuditAnchor) + "` cannot be read");
    return;
  }
  last_ = std::move(*first);
  head_ = std::move(*last);
}

void AuditWalk::break_at(std::int64_t seq, std::string problem) {
  if (check_.intact()) {
    check_.broken_row = seq;
    check_.problem = std::move(problem);
  }
}

void AuditWalk::take(const AuditRow& row) {
  if (!check_.intact()) {
    return;
  }
  ++check_.rows;
  const std::int64_t expected = last_.seq + 1;
  if (row.seq < expected) {
    break_at(row.seq, "it stands before the first row that may be there, " +
                          std::to_string(expected) + ": it was inserted, or should be gone");
  } else if (row.seq > expected) {
    break_at(expected, rows_are_missing(expected, row.seq - 1));
  } else if (row.seq > head_.seq) {
    break_at(row.seq, "it stands behind the last row that was written, " +
                          std::to_string(head_.seq) + ": it was inserted");
  } else if (row.hash != audit_hash(last_.hash, row)) {
    break_at(row.seq, "its hash does not fit its content and the row before it");
  }
  last_ = {row.seq, row.hash};
}

AuditCheck AuditWalk::finish() {
  if (check_.intact() && last_.seq < head_.seq) {
    break_at(last_.seq + 1, rows_are_missing(last_.seq + 1, head_.seq) + " at the end");
  } else if (check_.intact() && last_.seq > head_.seq) {
    break_at(last_.seq, "the head stands before the last row that was removed");
  } else if (check_.intact() && last_.hash != head_.hash) {
    break_at(last_.seq, "its hash is not the one that was written last");
  }
  check_.head_seq = last_.seq;
  check_.head_hash = last_.hash;
  return check_;
}

bool add_audit_hash(sqlite3* database) {
  // Direct use alone: what stands in a file that somebody else wrote must not call into us.
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
  return sqlite3_create_function_v2(database, "audit_hash", kHashArguments, kFlags, nullptr,
                                    hash_in_sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

}  // namespace sandboxkit::store
