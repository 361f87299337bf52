#pragma once

#include "io/fd.h"
#include "store/schema.h"
#include "store/sqlite.h"

#include <memory>
#include <string>

namespace sandboxkit::store {

/// A database file that this process alone has open.
struct DatabaseFile {
  /// Held until every connection is closed, so it stands first.
  io::Fd lock;
  std::unique_ptr<Connection> writer;
};

/// Makes the file where there is none (mode 0600, like its `-wal` and `-shm`), locks it against
/// other processes, checks its integrity and brings its schema to our version. Errors: kUnavailable
/// `store_unavailable`; a file of another kind or a newer version is refused.
Result<DatabaseFile> open_database_file(const std::string& path, const Schema& schema);

}  // namespace sandboxkit::store
