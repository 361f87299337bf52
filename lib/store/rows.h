#pragma once

#include "store/journal.h"
#include "store/sqlite.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sandboxkit::store {

/// How a row type lies in its table: the names of the columns and, in the same order, the members.
/// `kSerial`: the first column is numbered by the store when the member is 0.
template <typename Row>
struct Table;

template <>
struct Table<WorkspaceRow> {
  static constexpr const char* kName = "workspace";
  static constexpr const char* kColumns =
      "id, name, created, max_sandboxes, max_cpu_cores, max_memory_mb";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.id, row.name, row.created, row.max_sandboxes, row.max_cpu_cores,
                    row.max_memory_mb);
  }
};

template <>
struct Table<CredentialRow> {
  static constexpr const char* kName = "credential";
  static constexpr const char* kColumns =
      "id, kind, secret_hash, tenant, role, name, worker, uses_left, created, expires, last_used, "
      "revoked, sandbox, capabilities, networks, replaces, max_sandboxes, max_cpu_cores, "
      "max_memory_mb";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.id, row.kind, row.secret_hash, row.tenant, row.role, row.name, row.worker,
                    row.uses_left, row.created, row.expires, row.last_used, row.revoked,
                    row.sandbox, row.capabilities, row.networks, row.replaces, row.max_sandboxes,
                    row.max_cpu_cores, row.max_memory_mb);
  }
};

template <>
struct Table<WorkerRow> {
  static constexpr const char* kName = "worker";
  static constexpr const char* kColumns =
      "id, tenant, name, state, arch, engine, cpu_cores, memory_mb, max_sandboxes, max_starting, "
      "capabilities, runtimes, labels, images, joined, last_heartbeat, taints, problem, "
      "capability_cap, drain_until";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.id, row.tenant, row.name, row.state, row.arch, row.engine, row.cpu_cores,
                    row.memory_mb, row.max_sandboxes, row.max_starting, row.capabilities,
                    row.runtimes, row.labels, row.images, row.joined, row.last_heartbeat,
                    row.taints, row.problem, row.capability_cap, row.drain_until);
  }
};

template <>
struct Table<SandboxRow> {
  static constexpr const char* kName = "sandbox";
  static constexpr const char* kColumns =
      "id, tenant, name, worker, generation, desired, state, reason, spec, spec_hash, policy_hash, "
      "next_egress, cpu_cores, memory_mb, created_by, created, expires, started, ended, "
      "narrowing, narrowing_hash, narrowing_state, structure";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.id, row.tenant, row.name, row.worker, row.generation, row.desired,
                    row.state, row.reason, row.spec, row.spec_hash, row.policy_hash,
                    row.next_egress, row.cpu_cores, row.memory_mb, row.created_by, row.created,
                    row.expires, row.started, row.ended, row.narrowing, row.narrowing_hash,
                    row.narrowing_state, row.structure);
  }
};

template <>
struct Table<SecretRow> {
  static constexpr const char* kName = "secret";
  static constexpr const char* kColumns = "sandbox, name, domain, place, key, sealed, expires";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.sandbox, row.name, row.domain, row.place, row.key, row.sealed, row.expires);
  }
};

template <>
struct Table<DeliveryRow> {
  static constexpr const char* kName = "delivery";
  static constexpr const char* kColumns =
      "seq, worker, sandbox, generation, kind, state, attempts, created, not_before, trace";
  static constexpr bool kSerial = true;
  static auto members(auto& row) {
    return std::tie(row.seq, row.worker, row.sandbox, row.generation, row.kind, row.state,
                    row.attempts, row.created, row.not_before, row.trace);
  }
};

template <>
struct Table<AuditRow> {
  static constexpr const char* kName = "audit";
  static constexpr const char* kColumns =
      "seq, time, tenant, actor, action, target, outcome, address, request, hash";
  static constexpr bool kSerial = true;
  static auto members(auto& row) {
    return std::tie(row.seq, row.time, row.tenant, row.actor, row.action, row.target, row.outcome,
                    row.address, row.request, row.hash);
  }
};

template <>
struct Table<IdempotencyRow> {
  static constexpr const char* kName = "idempotency";
  static constexpr const char* kColumns = "tenant, key, request_hash, sandbox, created";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.tenant, row.key, row.request_hash, row.sandbox, row.created);
  }
};

template <>
struct Table<JournalRow> {
  static constexpr const char* kName = "journal";
  static constexpr const char* kColumns =
      "sandbox, tenant, generation, state, reason, policy_hash, expires, updated";
  static constexpr bool kSerial = false;
  static auto members(auto& row) {
    return std::tie(row.sandbox, row.tenant, row.generation, row.state, row.reason, row.policy_hash,
                    row.expires, row.updated);
  }
};

/// Rows of `Row`'s table; `where` is what follows the table's name, with a `?` for each argument.
template <typename Row, typename... Args>
Result<std::vector<Row>> select_all(Connection& connection, std::string_view where,
                                    const Args&... args) {
  const std::string sql = std::string("SELECT ") + Table<Row>::kColumns + " FROM " +
                          Table<Row>::kName + " " + std::string(where);
  std::vector<Row> rows;
  const auto read_row = [&](Query& query) {
    Row row{};
    std::apply([&](auto&... member) { (query.read(member), ...); }, Table<Row>::members(row));
    rows.push_back(std::move(row));
  };
  if (auto status = connection.each(sql, read_row, args...); !status) {
    return status.error();
  }
  return rows;
}

template <typename Row, typename... Args>
Result<std::optional<Row>> select_one(Connection& connection, std::string_view where,
                                      const Args&... args) {
  auto rows = select_all<Row>(connection, where, args...);
  if (!rows) {
    return rows.error();
  }
  return rows->empty() ? std::optional<Row>() : std::optional<Row>(std::move(rows->front()));
}

/// `verb` is INSERT or REPLACE.
template <typename Row>
Status insert_row(Connection& connection, const Row& row, const char* verb = "INSERT") {
  const auto members = Table<Row>::members(row);
  std::string places = Table<Row>::kSerial ? "NULLIF(?, 0)" : "?";
  for (std::size_t i = 1; i < std::tuple_size_v<decltype(members)>; ++i) {
    places += ", ?";
  }
  const std::string sql = std::string(verb) + " INTO " + Table<Row>::kName + " (" +
                          Table<Row>::kColumns + ") VALUES (" + places + ")";
  const auto changed =
      std::apply([&](const auto&... member) { return connection.run(sql, member...); }, members);
  return changed ? Status() : Status(changed.error());
}

}  // namespace sandboxkit::store
