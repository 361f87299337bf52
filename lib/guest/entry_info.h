#pragma once

#include "sandboxkit/result.h"

#include "guest/bounds.h"
#include "guest/users.h"
#include "json/value.h"

#include <string>

namespace sandboxkit::guest {

/// An `EntryInfo` message for a path. A symbolic link shows its target's type, size and mode, and
/// says where it leads; a dangling one shows itself. Errors: as `file_error`. Source: design of the
/// E2B surface, 4.4.
Result<json::Value> entry_info(const std::string& path, const Accounts& accounts);

/// The entries below a directory, sorted by name, each directory before its own entries; `depth` 1
/// are the direct ones. Links to directories are not entered. Errors: as `file_error`;
/// kInvalidArgument for what is no directory; kResourceExhausted past `max_entries`.
Result<json::Array> list_entries(const std::string& path, int depth, const Accounts& accounts,
                                 std::size_t max_entries = kMaxListEntries);

}  // namespace sandboxkit::guest
