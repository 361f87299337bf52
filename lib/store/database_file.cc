#include "store/database_file.h"

#include "base/text.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::store {
namespace {

constexpr mode_t kOwnerOnly = 0600;

/// Opens or makes a file whose mode is 0600 whatever the umask and whatever it was before.
Result<io::Fd> open_private(const std::string& path) {
  io::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!file || ::fchmod(file.get(), kOwnerOnly) != 0) {
    return store_unavailable(
        io::error_from_errno(("store " + quoted(path)).c_str(), errno).message);
  }
  return file;
}

Result<io::Fd> lock_file(const std::string& path) {
  // A file of its own: closing any descriptor of the database would drop the library's locks on it.
  auto lock = open_private(path + ".lock");
  if (lock && ::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return store_unavailable("store " + quoted(path) + " is in use by another process");
  }
  return lock;
}

Status make_files_private(const std::string& path) {
  if (auto file = open_private(path); !file) {
    return file.error();
  }
  // The library gives these two the mode of the database; ones from before may have another.
  for (const char* suffix : {"-wal", "-shm"}) {
    if (::chmod((path + suffix).c_str(), kOwnerOnly) != 0 && errno != ENOENT) {
      return store_unavailable(io::error_from_errno("mode of the store's files", errno).message);
    }
  }
  return {};
}

Result<std::int64_t> number_of(Connection& connection, const char* pragma) {
  std::int64_t number = 0;
  auto status = connection.each(pragma, [&](Query& row) { row.read(number); });
  if (!status) {
    return status.error();
  }
  return number;
}

Status check_integrity(Connection& connection, const std::string& path) {
  std::string verdict;
  auto status = connection.each("PRAGMA quick_check(1)", [&](Query& row) { row.read(verdict); });
  if (status && verdict != "ok") {
    return store_unavailable("store " + quoted(path) + " is damaged (" + verdict +
                             "); restore it from a copy");
  }
  return status;
}

Status apply_step(Connection& connection, const Schema& schema, std::int64_t version) {
  const std::string script = "BEGIN IMMEDIATE;" +
                             std::string(schema.steps[static_cast<std::size_t>(version)]) +
                             "PRAGMA application_id = " + std::to_string(schema.application_id) +
                             ";PRAGMA user_version = " + std::to_string(version + 1) + ";COMMIT;";
  return connection.script(script.c_str());
}

Status upgrade(Connection& connection, const Schema& schema, const std::string& path) {
  const auto application = number_of(connection, "PRAGMA application_id");
  const auto version = number_of(connection, "PRAGMA user_version");
  const auto tables = number_of(connection, "SELECT count(*) FROM sqlite_schema");
  for (const auto* number : {&application, &version, &tables}) {
    if (!*number) {
      return number->error();
    }
  }
  const auto newest = static_cast<std::int64_t>(schema.steps.size());
  const bool is_new = *tables == 0 && *version == 0;
  if (!is_new && *application != schema.application_id) {
    return store_unavailable("file " + quoted(path) + " is a database of something else");
  }
  if (*version > newest) {
    return store_unavailable("store " + quoted(path) + " was written by a newer version (schema " +
                             std::to_string(*version) + ", this program knows " +
                             std::to_string(newest) + ")");
  }
  for (std::int64_t step = *version; step < newest; ++step) {
    if (auto status = apply_step(connection, schema, step); !status) {
      return status;
    }
  }
  return {};
}

}  // namespace

Result<DatabaseFile> open_database_file(const std::string& path, const Schema& schema) {
  auto lock = lock_file(path);
  if (!lock) {
    return lock.error();
  }
  if (auto status = make_files_private(path); !status) {
    return status.error();
  }
  auto writer = Connection::open(path, Connection::Mode::kReadWrite);
  if (!writer) {
    return writer.error();
  }
  if (auto status = check_integrity(**writer, path); !status) {
    return status.error();
  }
  if (auto status = upgrade(**writer, schema, path); !status) {
    return status.error();
  }
  return DatabaseFile{std::move(*lock), std::move(*writer)};
}

}  // namespace sandboxkit::store
