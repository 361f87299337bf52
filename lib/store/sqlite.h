#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

struct sqlite3;
struct sqlite3_stmt;

namespace sandboxkit::store {

/// One use of a prepared statement; when it goes, the statement is free for the next use.
class Query {
 public:
  explicit Query(sqlite3_stmt* statement) : statement_(statement) {}
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  /// Binds the next parameter. Texts must outlive the query.
  void bind(std::string_view text);
  void bind(std::int64_t number);
  void bind(double number);
  void bind(WallTime time);
  void bind(const std::optional<WallTime>& time);

  /// Reads the next column of the row.
  void read(std::string& text);
  void read(std::int64_t& number);
  void read(double& number);
  void read(WallTime& time);
  void read(std::optional<WallTime>& time);
  void start_row() { column_ = 0; }

  sqlite3_stmt* get() const { return statement_; }

 private:
  sqlite3_stmt* statement_;
  int parameter_ = 0;
  int column_ = 0;
};

/// A connection with its prepared statements. One thread at a time.
///
/// Errors: kConflict with the trigger's text as reason, or `already_exists` (the message names the
/// columns); kUnavailable `store_unavailable` for a full disk, I/O, damage, a lock; kInternal for a
/// statement of ours that is wrong.
class Connection {
 public:
  /// `kInspect` cannot write to the file by any way, and leaves a foreign one as it is.
  enum class Mode : std::uint8_t { kReadWrite, kReadOnly, kInspect };

  /// The file must exist.
  static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs statements without parameters that give no rows that matter.
  Status script(const char* sql);

  /// Runs one statement to its end; the answer is how many rows it changed.
  template <typename... Args>
  Result<std::int64_t> run(std::string_view sql, const Args&... args) {
    const auto ignore_row = [](Query&) {};
    if (auto status = each(sql, ignore_row, args...); !status) {
      return status.error();
    }
    return changes();
  }

  /// Calls `on_row` with each row. It must not run the same statement.
  template <typename OnRow, typename... Args>
  Status each(std::string_view sql, const OnRow& on_row, const Args&... args) {
    auto statement = prepare(sql);
    if (!statement) {
      return statement.error();
    }
    Query query(*statement);
    (query.bind(args), ...);
    while (true) {
      const auto row = step(query);
      if (!row) {
        return row.error();
      }
      if (!*row) {
        return {};
      }
      query.start_row();
      on_row(query);
    }
  }

  bool in_transaction() const;
  /// The first failure since the last call that was no conflict: whatever a transaction's body made
  /// of it, what it wrote must not be committed.
  std::optional<Error> take_fault();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  Connection(sqlite3* database, Mode mode) : database_(database), mode_(mode) {}
  Result<sqlite3_stmt*> prepare(std::string_view sql);
  Result<bool> step(Query& query);
  std::int64_t changes() const;
  Error note(Error error);
  Error last_error();

  sqlite3* database_;
  Mode mode_;
  std::unordered_map<std::string, sqlite3_stmt*, Hash, std::equal_to<>> statements_;
  std::optional<Error> fault_;
};

Error store_unavailable(const std::string& why);

}  // namespace sandboxkit::store
