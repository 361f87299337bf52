#pragma once

#include <cstdint>
#include <span>

namespace sandboxkit::store {

/// The tables of one kind of database file, version by version.
struct Schema {
  /// Stands in the file's header: a database of another program or kind is refused.
  std::int32_t application_id;
  /// `steps[n]` takes version n to version n + 1. A step is never edited once it was released.
  std::span<const char* const> steps;
};

extern const Schema kControllerSchema;
extern const Schema kJournalSchema;

}  // namespace sandboxkit::store
