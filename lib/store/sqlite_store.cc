#include "store/database_file.h"
#include "store/group_writer.h"
#include "store/journal.h"
#include "store/rows.h"
#include "store/sqlite_tx.h"
#include "store/store.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace sandboxkit::store {
namespace {

constexpr std::size_t kReadConnections = 4;

/// Lends connections; a reader waits when all are out.
class ReadPool {
 public:
  static Result<std::unique_ptr<ReadPool>> open(const std::string& path) {
    auto pool = std::make_unique<ReadPool>();
    for (std::size_t i = 0; i < kReadConnections; ++i) {
      auto connection = Connection::open(path, Connection::Mode::kReadOnly);
      if (!connection) {
        return connection.error();
      }
      pool->idle_.push_back(std::move(*connection));
    }
    return pool;
  }

  Status run(const std::function<Status(Tx&)>& body) {
    auto connection = take();
    const Status status = run_on(*connection, body);
    give(std::move(connection));
    return status;
  }

 private:
  static Status run_on(Connection& connection, const std::function<Status(Tx&)>& body) {
    // One transaction, so that all reads of the body see one moment.
    if (auto status = connection.script("BEGIN"); !status) {
      return status;
    }
    Status status;
    try {
      SqliteTx tx(connection);
      status = body(tx);
    } catch (const std::exception& problem) {
      status = Error{ErrorCode::kInternal, std::string("read threw: ") + problem.what()};
    }
    if (auto fault = connection.take_fault(); fault && status) {
      status = std::move(*fault);
    }
    static_cast<void>(connection.script("ROLLBACK"));
    static_cast<void>(connection.take_fault());
    return status;
  }

  std::unique_ptr<Connection> take() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return !idle_.empty(); });
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  void give(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(connection));
    }
    returned_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

class SqliteStore final : public Store {
 public:
  SqliteStore(DatabaseFile file, std::unique_ptr<ReadPool> readers, const WriteMetrics& metrics)
      : lock_(std::move(file.lock)),
        readers_(std::move(readers)),
        metrics_(metrics),
        writer_(std::move(file.writer), GroupWriter::kMaxWaiting, metrics.group_sizes) {}

  Status write(const std::function<Status(Tx&)>& body) override {
    const auto begun = std::chrono::steady_clock::now();
    std::set<std::string> touched;
    const Status written = writer_.run([&](Connection& connection) {
      SqliteTx tx(connection);
      const Status status = body(tx);
      touched = tx.take_touched();  // Of the last run: the others were rolled back.
      return status;
    });
    if (metrics_.seconds != nullptr) {
      const auto taken = std::chrono::steady_clock::now() - begun;
      metrics_.seconds->observe(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(taken).count()));
    }
    if (written && on_change_ && !touched.empty()) {
      on_change_({touched.begin(), touched.end()});
    }
    return written;
  }

  void on_change(OnChange handler) override { on_change_ = std::move(handler); }

  Status read(const std::function<Status(Tx&)>& body) override { return readers_->run(body); }

 private:
  io::Fd lock_;
  std::unique_ptr<ReadPool> readers_;
  const WriteMetrics metrics_;
  GroupWriter writer_;
  OnChange on_change_;
};

class SqliteJournal final : public Journal {
 public:
  explicit SqliteJournal(DatabaseFile file)
      : lock_(std::move(file.lock)), writer_(std::move(file.writer)) {}

  Status put(const JournalRow& row) override {
    return writer_.run(
        [&](Connection& connection) { return insert_row(connection, row, "REPLACE"); });
  }

  Result<std::optional<JournalRow>> get(const std::string& sandbox) override {
    Result<std::optional<JournalRow>> found = std::optional<JournalRow>();
    auto status = writer_.run([&](Connection& connection) {
      found = select_one<JournalRow>(connection, "WHERE sandbox = ?", sandbox);
      return Status();
    });
    return status ? std::move(found) : Result<std::optional<JournalRow>>(status.error());
  }

  Result<std::vector<JournalRow>> all() override {
    Result<std::vector<JournalRow>> found = std::vector<JournalRow>();
    auto status = writer_.run([&](Connection& connection) {
      found = select_all<JournalRow>(connection, "ORDER BY sandbox");
      return Status();
    });
    return status ? std::move(found) : Result<std::vector<JournalRow>>(status.error());
  }

  Status erase(const std::string& sandbox) override {
    return writer_.run([&](Connection& connection) {
      const auto changed = connection.run("DELETE FROM journal WHERE sandbox = ?", sandbox);
      return changed ? Status() : Status(changed.error());
    });
  }

 private:
  io::Fd lock_;
  // Reads go through it as well: they are few, and see what was written before them.
  GroupWriter writer_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite(const std::string& path, const WriteMetrics& metrics) {
  auto file = open_database_file(path, kControllerSchema);
  if (!file) {
    return file.error();
  }
  auto readers = ReadPool::open(path);
  if (!readers) {
    return readers.error();
  }
  return std::unique_ptr<Store>(
      std::make_unique<SqliteStore>(std::move(*file), std::move(*readers), metrics));
}

Result<std::unique_ptr<Journal>> open_sqlite_journal(const std::string& path) {
  auto file = open_database_file(path, kJournalSchema);
  if (!file) {
    return file.error();
  }
  return std::unique_ptr<Journal>(std::make_unique<SqliteJournal>(std::move(*file)));
}

}  // namespace sandboxkit::store
