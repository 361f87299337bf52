#pragma once

#include "store/store.h"
#include "tests/unit/store/temporary_folder.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace sandboxkit::store {

inline WallTime at(std::int64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(milliseconds));
}

inline WorkerRow worker_row(const std::string& id, const std::string& tenant) {
  WorkerRow row{.id = id};
  row.tenant = tenant;
  row.name = id;
  row.joined = at(1);
  return row;
}

inline SandboxRow sandbox_row(const std::string& id, const std::string& tenant,
                              const std::string& worker = {}) {
  SandboxRow row{.id = id, .tenant = tenant, .spec = "{}", .spec_hash = "hash"};
  row.worker = worker;
  row.cpu_cores = 1;
  row.memory_mb = 512;
  row.created = at(1);
  row.expires = at(100);
  return row;
}

/// A store in a folder of its own, and the two calls that most tests make.
struct StoreWorld {
  TemporaryFolder folder;
  std::unique_ptr<Store> store;

  StoreWorld() { open(); }

  void open() {
    store.reset();
    auto opened = open_sqlite(folder.file("store.db"));
    REQUIRE(opened);
    store = std::move(*opened);
  }

  template <typename Row>
  Status put(const Row& row) {
    return store->write([&](Tx& tx) { return tx.insert(row); });
  }

  /// What `ask` gives in a write transaction; a failure ends the test.
  template <typename F>
  auto ask(const F& ask_tx) {
    typename decltype(ask_tx(std::declval<Tx&>()))::value_type value{};
    const Status status = store->write([&](Tx& tx) -> Status {
      auto result = ask_tx(tx);
      if (!result) {
        return result.error();
      }
      value = std::move(*result);
      return {};
    });
    REQUIRE(status.has_value());
    return value;
  }
};

/// The reason of a failure, or `ok`.
inline std::string reason(const Status& status) {
  return status ? "ok" : reason_of(status.error());
}

}  // namespace sandboxkit::store
