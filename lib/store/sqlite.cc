#include "store/sqlite.h"

#include "base/text.h"
#include "store/audit_chain.h"

#include <utility>

#include <sqlite3.h>

namespace sandboxkit::store {
namespace {

constexpr int kBusyTimeoutMs = 5'000;

std::int64_t milliseconds_of(WallTime time) { return time.time_since_epoch().count(); }

WallTime time_of(std::int64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(milliseconds));
}

Error conflict_of(int code, const std::string& message) {
  switch (code) {
    case SQLITE_CONSTRAINT_TRIGGER:
      return {ErrorCode::kConflict, "store refuses the row: " + message, message};
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return {ErrorCode::kConflict, "row exists already: " + message, "already_exists"};
    default:
      return {ErrorCode::kInternal, "store refuses the row: " + message};
  }
}

/// Turns the library's code into one of ours. `full` gets its own words: people can act on it.
Error error_of(int extended_code, const std::string& message, bool read_only) {
  switch (extended_code & 0xff) {
    case SQLITE_CONSTRAINT:
      return conflict_of(extended_code, message);
    case SQLITE_FULL:
      return store_unavailable("disk of the store is full; nothing was written");
    case SQLITE_IOERR:
      return store_unavailable("disk of the store does not take reads or writes: " + message);
    case SQLITE_READONLY:
      return read_only ? Error{ErrorCode::kInternal, "write inside of a read"}
                       : store_unavailable("store is on a disk that takes no writes");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return store_unavailable("store is damaged (" + message + "); restore it from a copy");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return store_unavailable("store is locked by somebody else");
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return store_unavailable("store cannot be used: " + message);
    default:
      return {ErrorCode::kInternal, "store: " + message};
  }
}

}  // namespace

Error store_unavailable(const std::string& why) {
  return {ErrorCode::kUnavailable, why, "store_unavailable"};
}

Query::~Query() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Query::bind(std::string_view text) {
  // An empty view may hold a null pointer, which would bind NULL.
  const char* data = text.data() != nullptr ? text.data() : "";
  sqlite3_bind_text64(statement_, ++parameter_, data, text.size(), nullptr, SQLITE_UTF8);
}

void Query::bind(std::int64_t number) { sqlite3_bind_int64(statement_, ++parameter_, number); }

void Query::bind(double number) { sqlite3_bind_double(statement_, ++parameter_, number); }

void Query::bind(WallTime time) { bind(milliseconds_of(time)); }

void Query::bind(const std::optional<WallTime>& time) {
  if (time) {
    bind(*time);
  } else {
    sqlite3_bind_null(statement_, ++parameter_);
  }
}

void Query::read(std::string& text) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column_));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column_));
  text.assign(bytes != nullptr ? bytes : "", size);
  ++column_;
}

void Query::read(std::int64_t& number) { number = sqlite3_column_int64(statement_, column_++); }

void Query::read(double& number) { number = sqlite3_column_double(statement_, column_++); }

void Query::read(WallTime& time) { time = time_of(sqlite3_column_int64(statement_, column_++)); }

void Query::read(std::optional<WallTime>& time) {
  if (sqlite3_column_type(statement_, column_) == SQLITE_NULL) {
    time.reset();
    ++column_;
  } else {
    read(time.emplace());
  }
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path, Mode mode) {
  sqlite3* database = nullptr;
  // Without CREATE: the file was made before, with its mode. Without the library's own mutex: each
  // connection is used by one thread at a time.
  const int access = mode == Mode::kInspect ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  const int flags = access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  auto connection = std::unique_ptr<Connection>(new Connection(database, mode));
  if (code != SQLITE_OK) {
    return error_of(code, sqlite3_errstr(code), mode != Mode::kReadWrite);
  }
  if (!add_audit_hash(database)) {
    return store_unavailable("store cannot be used: its hash is not to be had");
  }
  sqlite3_busy_timeout(database, kBusyTimeoutMs);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  const char* const settings = mode != Mode::kReadWrite
                                   ? "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON;"
                                   : "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
                                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                                     "PRAGMA journal_size_limit = 67108864; "
                                     "PRAGMA cache_size = -65536;";
  if (auto status = connection->script(settings); !status) {
    return status.error();
  }
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(database_);
}

Status Connection::script(const char* sql) {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return note(last_error());
  }
  return {};
}

Result<sqlite3_stmt*> Connection::prepare(std::string_view sql) {
  if (const auto at = statements_.find(sql); at != statements_.end()) {
    return at->second;
  }
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database_, sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
    return note(last_error());
  }
  statements_.emplace(sql, statement);
  return statement;
}

Result<bool> Connection::step(Query& query) {
  const int code = sqlite3_step(query.get());
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    return false;
  }
  return note(last_error());
}

std::int64_t Connection::changes() const { return sqlite3_changes64(database_); }

bool Connection::in_transaction() const { return sqlite3_get_autocommit(database_) == 0; }

std::optional<Error> Connection::take_fault() { return std::exchange(fault_, std::nullopt); }

Error Connection::note(Error error) {
  if (error.code != ErrorCode::kConflict && !fault_) {
    fault_ = error;
  }
  return error;
}

Error Connection::last_error() {
  return error_of(sqlite3_extended_errcode(database_), sqlite3_errmsg(database_),
                  mode_ != Mode::kReadWrite);
}

}  // namespace sandboxkit::store
