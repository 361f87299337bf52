#include "store/database_file.h"
#include "store/group_writer.h"
#include "store/journal.h"
#include "tests/unit/store/store_world.h"

#include <atomic>
#include <csignal>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

unsigned mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777U;
}

/// No file may grow past `bytes` while it stands: a write then fails as on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    signal_before_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*signal_before_)(int) = SIG_DFL;
};

std::int64_t count(StoreWorld& world) {
  return world.ask([](Tx& tx) { return tx.use_of_tenant("acme"); }).sandboxes;
}

Status execute(Connection& connection, const char* sql) {
  const auto changed = connection.run(sql);
  return changed ? Status() : Status(changed.error());
}

}  // namespace

TEST_CASE("what was written is there after the store is opened again") {
  StoreWorld world;
  REQUIRE(world.put(sandbox_row("i1", "acme")).has_value());
  world.open();
  CHECK(count(world) == 1);
}

TEST_CASE("the files are for their owner alone, whatever the umask and the mode before") {
  const mode_t umask_before = ::umask(0);
  {
    StoreWorld world;
    REQUIRE(world.put(sandbox_row("i1", "acme")).has_value());
    for (const char* name : {"store.db", "store.db-wal", "store.db-shm", "store.db.lock"}) {
      CAPTURE(name);
      CHECK(mode_of(world.folder.file(name)) == 0600U);
    }
    world.store.reset();
    REQUIRE(::chmod(world.folder.file("store.db").c_str(), 0644) == 0);
    world.open();
    CHECK(mode_of(world.folder.file("store.db")) == 0600U);
  }
  ::umask(umask_before);
}

TEST_CASE("a body that fails undoes its own writes only") {
  StoreWorld world;
  const Status failed = world.store->write([](Tx& tx) -> Status {
    REQUIRE(tx.insert(sandbox_row("i1", "acme")).has_value());
    return Error{ErrorCode::kConflict, "changed its mind", "changed_mind"};
  });
  CHECK(reason(failed) == "changed_mind");
  CHECK(count(world) == 0);
  CHECK(reason(world.put(sandbox_row("i1", "acme"))) == "ok");
}

TEST_CASE("a body may go on after a refused row, and keeps what it wrote") {
  StoreWorld world;
  REQUIRE(world.put(sandbox_row("i1", "acme")).has_value());
  const Status status = world.store->write([](Tx& tx) {
    CHECK(reason(tx.insert(sandbox_row("i1", "acme"))) == "already_exists");
    return tx.insert(sandbox_row("i2", "acme"));
  });
  CHECK(status.has_value());
  CHECK(count(world) == 2);
}

TEST_CASE("a body that throws is rolled back and the store goes on") {
  StoreWorld world;
  const Status status = world.store->write([](Tx& tx) -> Status {
    REQUIRE(tx.insert(sandbox_row("i1", "acme")).has_value());
    throw std::runtime_error("defect");
  });
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kInternal);
  CHECK(count(world) == 0);
}

TEST_CASE("writes of many threads are each all or nothing, and all of the good ones are there") {
  StoreWorld world;
  constexpr int kThreads = 8;
  constexpr int kWrites = 25;
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kWrites; ++i) {
        const std::string id = "i" + std::to_string(t) + "-" + std::to_string(i);
        const Status status = world.store->write([&](Tx& tx) -> Status {
          if (auto inserted = tx.insert(sandbox_row(id, "acme")); !inserted) {
            return inserted;
          }
          return i % 5 == 4 ? Status(Error{ErrorCode::kConflict, "no"})
                            : tx.set_setting(id, "there");
        });
        good += status ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(good == kThreads * kWrites * 4 / 5);
  CHECK(count(world) == good);
}

TEST_CASE("a quota that is checked in a write is never oversold") {
  StoreWorld world;
  constexpr std::int64_t kQuota = 10;
  std::vector<std::thread> threads;
  std::atomic<int> admitted{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const Status status = world.store->write([&](Tx& tx) -> Status {
          const auto live = tx.use_of_tenant("acme");
          if (!live || live->sandboxes >= kQuota) {
            return Error{ErrorCode::kResourceExhausted, "full"};
          }
          return tx.insert(sandbox_row("i" + std::to_string(t * 100 + i), "acme"));
        });
        admitted += status ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(admitted == kQuota);
  CHECK(count(world) == kQuota);
}

TEST_CASE("a read sees one moment and cannot write") {
  StoreWorld world;
  const Status status = world.store->read([&](Tx& tx) -> Status {
    CHECK(tx.use_of_tenant("acme")->sandboxes == 0);
    REQUIRE(world.put(sandbox_row("i1", "acme")).has_value());
    CHECK(tx.use_of_tenant("acme")->sandboxes == 0);
    return {};
  });
  CHECK(status.has_value());
  CHECK(*world.ask([](Tx& tx) { return tx.sandbox("acme", "i1"); })->id.c_str() == 'i');
  const Status refused =
      world.store->read([](Tx& tx) { return tx.insert(sandbox_row("i2", "acme")); });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInternal);
  CHECK(count(world) == 1);
}

TEST_CASE("a write sees what it wrote itself") {
  StoreWorld world;
  const Status status = world.store->write([](Tx& tx) -> Status {
    REQUIRE(tx.insert(sandbox_row("i1", "acme")).has_value());
    CHECK(tx.sandbox("acme", "i1")->has_value());
    CHECK(tx.use_of_tenant("acme")->sandboxes == 1);
    return {};
  });
  CHECK(status.has_value());
}

TEST_CASE("a disk that takes no more writes is named, nothing is half there, and it recovers") {
  StoreWorld world;
  REQUIRE(world.put(sandbox_row("i1", "acme")).has_value());
  SandboxRow large = sandbox_row("i2", "acme");
  large.spec = std::string(4 << 20, 'x');
  {
    const FileSizeLimit limit(1 << 20);
    const Status status = world.put(large);
    REQUIRE_FALSE(status);
    CHECK(status.error().code == ErrorCode::kUnavailable);
    CHECK(reason(status) == "store_unavailable");
    CHECK(status.error().message.find("disk") != std::string::npos);
    CHECK(count(world) == 1);
  }
  CHECK(reason(world.put(large)) == "ok");
  CHECK(count(world) == 2);
}

TEST_CASE("past its limit a write is refused at once, and those that wait are written") {
  TemporaryFolder folder;
  auto file = open_database_file(folder.file("db"), kControllerSchema);
  REQUIRE(file);
  GroupWriter writer(std::move(file->writer), 1);
  std::promise<void> begun;
  std::promise<void> go_on;
  std::thread slow([&] {
    CHECK(writer.run([&, first = true](Connection&) mutable {
      if (std::exchange(first, false)) {
        begun.set_value();
        go_on.get_future().wait();
      }
      return Status();
    }));
  });
  begun.get_future().wait();
  // Two more, of which one has room: whoever comes second is refused while the first still waits.
  std::atomic<int> refused{0};
  std::promise<void> told;
  const auto write = [&] {
    const Status status = writer.run([](Connection&) { return Status(); });
    if (!status && reason(status) == "overloaded" && ++refused == 1) {
      told.set_value();
    }
  };
  std::thread second(write);
  std::thread third(write);
  told.get_future().wait();
  go_on.set_value();
  for (auto* thread : {&slow, &second, &third}) {
    thread->join();
  }
  CHECK(refused == 1);
}

TEST_CASE("a job that fills the disk fails alone, and those beside it are written") {
  TemporaryFolder folder;
  auto file = open_database_file(folder.file("db"), kControllerSchema);
  REQUIRE(file);
  REQUIRE(file->writer->script("PRAGMA max_page_count = 60").has_value());
  GroupWriter writer(std::move(file->writer));
  std::atomic<int> small_ones{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::string sql = "INSERT INTO setting VALUES ('k" + std::to_string(t) + "', 'v')";
      small_ones += writer.run([&](Connection& c) { return execute(c, sql.c_str()); }) ? 1 : 0;
    });
  }
  const Status full = writer.run([](Connection& c) {
    // A body that hides the failure must not get its other writes committed.
    static_cast<void>(execute(c, "INSERT INTO setting VALUES ('half', 'there')"));
    static_cast<void>(execute(c,
                              "INSERT INTO setting VALUES ('big', zeroblob(0) || "
                              "hex(randomblob(1000000)))"));
    return Status();
  });
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(reason(full) == "store_unavailable");
  CHECK(full.error().message.find("full") != std::string::npos);
  CHECK(small_ones == 6);
  std::int64_t rows = 0;
  REQUIRE(writer.run([&](Connection& c) {
    return c.each("SELECT count(*) FROM setting", [&](Query& row) { row.read(rows); });
  }));
  CHECK(rows == 6);
}

TEST_CASE("a second opener of the same file is refused") {
  StoreWorld world;
  const auto second = open_sqlite(world.folder.file("store.db"));
  REQUIRE_FALSE(second);
  CHECK(reason_of(second.error()) == "store_unavailable");
  CHECK(second.error().message.find("in use") != std::string::npos);
  CHECK(reason(world.put(sandbox_row("i1", "acme"))) == "ok");
}

TEST_CASE("a damaged file is refused and left as it is") {
  TemporaryFolder folder;
  const std::string path = folder.file("store.db");
  std::ofstream(path) << std::string(8192, 'x');
  const auto opened = open_sqlite(path);
  REQUIRE_FALSE(opened);
  CHECK(reason_of(opened.error()) == "store_unavailable");
  std::ifstream file(path);
  CHECK(file.get() == 'x');
}

TEST_CASE("damage inside of the file is found when it is opened") {
  TemporaryFolder folder;
  const std::string path = folder.file("store.db");
  {
    auto opened = open_sqlite(path);
    REQUIRE(opened);
    REQUIRE((*opened)->write([](Tx& tx) { return tx.insert(sandbox_row("i1", "acme")); }));
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(20 * 4096, '\x5a');
  }
  const auto opened = open_sqlite(path);
  REQUIRE_FALSE(opened);
  CHECK(reason_of(opened.error()) == "store_unavailable");
}

TEST_CASE("a file of another kind or of a newer version is refused") {
  TemporaryFolder folder;
  REQUIRE(open_sqlite_journal(folder.file("journal.db")));
  const auto other = open_sqlite(folder.file("journal.db"));
  REQUIRE_FALSE(other);
  CHECK(other.error().message.find("something else") != std::string::npos);
  {
    auto file = open_database_file(folder.file("store.db"), kControllerSchema);
    REQUIRE(file);
    REQUIRE(file->writer->script("PRAGMA user_version = 99").has_value());
  }
  const auto newer = open_sqlite(folder.file("store.db"));
  REQUIRE_FALSE(newer);
  CHECK(newer.error().message.find("newer version") != std::string::npos);
}

TEST_CASE("a folder that is not there is an error that names the file") {
  const auto opened = open_sqlite("/nonexistent-folder/store.db");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("/nonexistent-folder/store.db") != std::string::npos);
}

TEST_CASE(
    "rules of the tables hold for any statement: audit rows stay, workers keep their tenant") {
  TemporaryFolder folder;
  auto file = open_database_file(folder.file("db"), kControllerSchema);
  REQUIRE(file);
  Connection& db = *file->writer;
  REQUIRE(execute(db, "INSERT INTO audit VALUES (1, 0, 't', 'a', 'b', 'c', 'd', 'e', '', 'h')"));
  CHECK(reason(execute(db, "UPDATE audit SET actor = 'x'")) == "audit_append_only");
  CHECK(reason(execute(db, "DELETE FROM audit")) == "audit_append_only");
  REQUIRE(
      execute(db,
              "INSERT INTO worker (id, tenant, name, state, arch, engine, cpu_cores, memory_mb, "
              "max_sandboxes, max_starting, capabilities, runtimes, labels, images, joined) "
              "VALUES ('w', 'other', '', 'ready', '', '', 1, 1, 1, 1, '', '', '', '', 0)"));
  CHECK(reason(execute(db, "UPDATE worker SET tenant = ''")) == "worker_tenant_fixed");
  REQUIRE(execute(db,
                  "INSERT INTO sandbox VALUES ('i', 'acme', '', '', 1, 'running', 'pending', "
                  "'', '{}', 'h', '', '', 1, 1, '', 0, 0, NULL, NULL, '', '', '', '')"));
  CHECK(reason(execute(db, "UPDATE sandbox SET worker = 'w'")) == "foreign_placement");
  REQUIRE(execute(db, "UPDATE sandbox SET tenant = 'other', worker = 'w'"));
  CHECK(reason(execute(db, "UPDATE sandbox SET tenant = 'acme'")) == "foreign_placement");
}

TEST_CASE("the questions that are asked often are answered from an index") {
  TemporaryFolder folder;
  auto file = open_database_file(folder.file("db"), kControllerSchema);
  REQUIRE(file);
  const std::pair<const char*, const char*> rows[] = {
      {"SELECT * FROM sandbox WHERE tenant = 'a' AND state = 'b' AND id > 'c' ORDER BY id LIMIT "
       "100",
       "sandbox_list"},
      {"SELECT * FROM sandbox WHERE tenant = 'a' AND name = 'b' AND name <> '' AND state NOT IN "
       "('stopped', 'error', 'lost', 'deleted')",
       "sandbox_live_name"},
      {"SELECT * FROM sandbox WHERE worker = 'a' AND state NOT IN ('stopped', 'error', 'lost', "
       "'deleted')",
       "sandbox_live_worker"},
      {"SELECT sandboxes FROM use WHERE kind = 'worker' AND id = 'a'", "PRIMARY KEY"},
      {"SELECT * FROM credential WHERE worker = 'a' AND kind = 'wk' AND revoked IS NULL",
       "credential_worker"},
      {"SELECT id FROM sandbox WHERE state IN ('stopped', 'error', 'lost', 'deleted') AND ended < "
       "5 ORDER BY ended",
       "sandbox_ended"},
      {"SELECT * FROM delivery WHERE worker = 'a' AND state = 'queued' ORDER BY seq",
       "delivery_queued"},
      {"SELECT * FROM credential WHERE kind = 'a' AND tenant = 'b' AND revoked IS NULL "
       "ORDER BY created, id",
       "credential_live"},
      {"SELECT * FROM audit WHERE tenant = 'a' AND seq > 1 ORDER BY seq", "audit_tenant"},
  };
  for (const auto& [sql, index] : rows) {
    const auto& shown = sql;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    std::string plan;
    REQUIRE(file->writer->each("EXPLAIN QUERY PLAN " + std::string(sql), [&](Query& row) {
      std::int64_t ignored = 0;
      row.read(ignored);
      row.read(ignored);
      row.read(ignored);
      std::string line;
      row.read(line);
      plan += line + "\n";
    }));
    CAPTURE(plan);
    CHECK(plan.find(index) != std::string::npos);
    CHECK(plan.find("SCAN") == std::string::npos);
    CHECK(plan.find("TEMP B-TREE") == std::string::npos);
  }
}
