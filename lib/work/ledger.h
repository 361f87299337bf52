#pragma once

#include "sandboxkit/result.h"

#include "base/guarded.h"
#include "store/journal.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::work {

/// States of a journal's row.
inline constexpr const char* kCreating = "creating";
inline constexpr const char* kRunning = "running";
inline constexpr const char* kRemoving = "removing";
inline constexpr const char* kEnded = "ended";

/// Reasons that the worker itself gives.
inline constexpr const char* kReasonRemoved = "removed";
inline constexpr const char* kReasonTimeout = "timeout";
inline constexpr const char* kReasonLost = "lost";

/// The journal with a copy in memory, so that the event loop can look up without waiting for the
/// disk. A write is durable before the copy shows it.
/// Thread-safety: any thread; writes of one sandbox come from one thread at a time (Orders).
class Ledger {
 public:
  explicit Ledger(store::Journal& journal) : journal_(journal) {}

  /// Reads the whole journal; before anything else.
  Status load();
  std::optional<store::JournalRow> get(const std::string& sandbox) const;
  std::vector<store::JournalRow> all() const;
  Status put(const store::JournalRow& row);
  Status erase(const std::string& sandbox);
  /// Rows that are not ended.
  std::int64_t live() const;

 private:
  store::Journal& journal_;
  Guarded<std::map<std::string, store::JournalRow>> rows_;
};

}  // namespace sandboxkit::work
