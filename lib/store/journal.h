#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::store {

/// What a worker did, so that a delivery has its effect once.
struct JournalRow {
  std::string sandbox;
  std::string tenant;
  std::int64_t generation = 0;
  std::string state;  ///< creating, running, removing, ended.
  std::string reason{};
  std::string policy_hash{};
  WallTime expires{};
  WallTime updated{};
};

/// The worker's journal: durable before the worker acts. Thread-safety: any thread.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual Status put(const JournalRow& row) = 0;
  virtual Result<std::optional<JournalRow>> get(const std::string& sandbox) = 0;
  virtual Result<std::vector<JournalRow>> all() = 0;
  virtual Status erase(const std::string& sandbox) = 0;
};

Result<std::unique_ptr<Journal>> open_sqlite_journal(const std::string& path);

}  // namespace sandboxkit::store
