#include "base/text.h"
#include "store/rows.h"
#include "store/sqlite_tx.h"

#include <algorithm>
#include <iterator>

namespace sandboxkit::store {
namespace {

constexpr std::size_t kMaxPage = 1'000;
// A purge holds the writer: what is left over goes with the next one.
constexpr std::int64_t kMaxPurge = 5'000;
constexpr const char* kNameColumns = "sandbox.tenant, sandbox.name";
constexpr const char* kLive = "state NOT IN ('stopped', 'error', 'lost', 'deleted')";
constexpr const char* kEnded = "state IN ('stopped', 'error', 'lost', 'deleted')";
constexpr const char* kLiveStates[] = {"pending", "starting", "running", "paused", "stopping"};
constexpr const char* kEndedStates[] = {"stopped", "error", "lost"};

/// The states of a query; "all but deleted" when it names none.
std::vector<std::string> states_of(const SandboxQuery& query) {
  if (!query.states.empty()) {
    return query.states;
  }
  std::vector<std::string> states(std::begin(kLiveStates), std::end(kLiveStates));
  states.insert(states.end(), std::begin(kEndedStates), std::end(kEndedStates));
  return states;
}

/// Says which of our rules a row broke, in words for its caller.
Error explain(const SandboxRow& row, Error error) {
  if (error.reason == "foreign_placement") {
    error.message =
        "worker " + quoted(row.worker) + " does not serve workspace " + quoted(row.tenant);
  } else if (error.reason == "already_exists" &&
             error.message.find(kNameColumns) != std::string::npos) {
    error.reason = "name_taken";
    error.message = "a sandbox named " + quoted(row.name) + " is alive in this workspace";
    error.field = "name";
  }
  return error;
}

Status done(const Result<std::int64_t>& changed) {
  return changed ? Status() : Status(changed.error());
}

}  // namespace

Status SqliteTx::insert(const SandboxRow& row) {
  touched_.insert(row.worker);
  auto status = insert_row(connection_, row);
  return status ? status : Status(explain(row, status.error()));
}

Result<std::optional<SandboxRow>> SqliteTx::sandbox(const std::string& tenant,
                                                    const std::string& id) {
  return select_one<SandboxRow>(connection_, "WHERE id = ? AND tenant = ?", id, tenant);
}

Result<std::optional<SandboxRow>> SqliteTx::sandbox_by_name(const std::string& tenant,
                                                            const std::string& name) {
  return select_one<SandboxRow>(
      connection_, std::string("WHERE tenant = ? AND name = ? AND name <> '' AND ") + kLive, tenant,
      name);
}

Result<std::vector<SandboxRow>> SqliteTx::sandboxes(const SandboxQuery& query) {
  // One page of each state straight from the index, then the first of them all: the cost is the
  // page's and not that of the tenant's whole history.
  const std::size_t limit = std::min(query.limit, kMaxPage);
  std::vector<SandboxRow> page;
  for (const std::string& state : states_of(query)) {
    auto rows = select_all<SandboxRow>(
        connection_, "WHERE tenant = ? AND state = ? AND id > ? ORDER BY id LIMIT ?", query.tenant,
        state, query.after, static_cast<std::int64_t>(limit));
    if (!rows) {
      return rows.error();
    }
    std::ranges::move(*rows, std::back_inserter(page));
  }
  std::ranges::sort(page, {}, &SandboxRow::id);
  page.erase(std::unique(page.begin(), page.end(),
                         [](const auto& a, const auto& b) { return a.id == b.id; }),
             page.end());
  if (page.size() > limit) {
    page.resize(limit);
  }
  return page;
}

Result<std::vector<SandboxRow>> SqliteTx::sandboxes_of_worker(const std::string& worker) {
  return select_all<SandboxRow>(
      connection_, std::string("WHERE worker = ? AND ") + kLive + " ORDER BY id", worker);
}

Result<std::optional<SandboxRow>> SqliteTx::sandbox_of_worker(const std::string& worker,
                                                              const std::string& id) {
  return select_one<SandboxRow>(connection_, "WHERE id = ? AND worker = ?", id, worker);
}

Result<bool> SqliteTx::update_sandbox(const SandboxRow& row,
                                      const std::optional<std::string>& expected_state) {
  touched_.insert(row.worker);
  const auto changed = connection_.run(
      "UPDATE sandbox SET state = ?, desired = ?, reason = ?, expires = ?, started = ?, ended = ?, "
      "next_egress = ?, narrowing = ?, narrowing_hash = ?, narrowing_state = ?, structure = ? "
      "WHERE id = ? AND tenant = ? AND generation = ? AND (? = '' OR state = ?)",
      row.state, row.desired, row.reason, row.expires, row.started, row.ended, row.next_egress,
      row.narrowing, row.narrowing_hash, row.narrowing_state, row.structure, row.id, row.tenant,
      row.generation, expected_state.value_or(""), expected_state.value_or(""));
  if (!changed) {
    return explain(row, changed.error());
  }
  return *changed > 0;
}

Result<Tx::Use> SqliteTx::use_of(const char* kind, const std::string& id) {
  Use use;
  const auto read_use = [&](Query& row) {
    std::int64_t cpu_millis = 0;
    row.read(use.sandboxes);
    row.read(use.starting);
    row.read(cpu_millis);
    row.read(use.memory_mb);
    use.cpu_cores = static_cast<double>(cpu_millis) / 1000;
  };
  auto status = connection_.each(
      "SELECT sandboxes, starting, cpu_millis, memory_mb FROM use WHERE kind = ? AND id = ?",
      read_use, std::string_view(kind), id);
  if (!status) {
    return status.error();
  }
  return use;
}

Result<Tx::Use> SqliteTx::use_of_worker(const std::string& worker) {
  return use_of("worker", worker);
}

Result<Tx::Use> SqliteTx::use_of_tenant(const std::string& tenant) {
  return use_of("tenant", tenant);
}

Result<Tx::Use> SqliteTx::use_of_key(const std::string& credential) {
  return use_of("key", credential);
}

Result<std::int64_t> SqliteTx::purge_ended(WallTime before) {
  return connection_.run(
      std::string("DELETE FROM sandbox WHERE id IN (SELECT id FROM sandbox WHERE ") + kEnded +
          " AND ended < ? ORDER BY ended LIMIT ?)",
      before, kMaxPurge);
}

Status SqliteTx::insert(const DeliveryRow& row) { return insert_row(connection_, row); }

Result<std::vector<DeliveryRow>> SqliteTx::due_deliveries(const std::string& worker, WallTime now,
                                                          std::size_t limit) {
  return select_all<DeliveryRow>(
      connection_, "WHERE worker = ? AND state = 'queued' AND not_before <= ? ORDER BY seq LIMIT ?",
      worker, now, static_cast<std::int64_t>(std::min(limit, kMaxPage)));
}

Result<Tx::Counts> SqliteTx::counts() {
  Counts counts;
  auto status = connection_.each(
      "SELECT state, count(*) FROM sandbox GROUP BY state ORDER BY state", [&](Query& row) {
        auto& [state, count] = counts.sandboxes.emplace_back();
        row.read(state);
        row.read(count);
      });
  if (status) {
    status = connection_.each("SELECT count(*) FROM delivery WHERE state = 'queued'",
                              [&](Query& row) { row.read(counts.queued_deliveries); });
  }
  return status ? Result<Counts>(std::move(counts)) : status.error();
}

Status SqliteTx::finish_delivery(std::int64_t seq, const std::string& state) {
  return done(connection_.run("UPDATE delivery SET state = ? WHERE seq = ?", state, seq));
}

Status SqliteTx::retry_delivery(std::int64_t seq, WallTime not_before) {
  return done(
      connection_.run("UPDATE delivery SET attempts = attempts + 1, not_before = ? "
                      "WHERE seq = ? AND state = 'queued'",
                      not_before, seq));
}

Status SqliteTx::drop_deliveries(const std::string& sandbox, const std::string& kind) {
  return done(connection_.run(
      "DELETE FROM delivery WHERE sandbox = ? AND state = 'queued' AND kind = ?", sandbox, kind));
}

Result<bool> SqliteTx::has_delivery(const std::string& sandbox, const std::string& kind) {
  bool found = false;
  auto status = connection_.each(
      "SELECT 1 FROM delivery WHERE sandbox = ? AND state = 'queued' AND kind = ? LIMIT 1",
      [&](Query&) { found = true; }, sandbox, kind);
  return status ? Result<bool>(found) : status.error();
}

Status SqliteTx::insert(const SecretRow& row) { return insert_row(connection_, row); }

Result<std::vector<SecretRow>> SqliteTx::secrets(const std::string& sandbox) {
  return select_all<SecretRow>(connection_, "WHERE sandbox = ? ORDER BY name", sandbox);
}

Result<std::vector<std::string>> SqliteTx::borrowers(const std::string& worker) {
  std::vector<std::string> ids;
  auto status = connection_.each(
      "SELECT DISTINCT secret.sandbox FROM secret JOIN sandbox ON sandbox.id = secret.sandbox "
      "WHERE sandbox.worker = ? AND sandbox.state = 'running' ORDER BY 1",
      [&](Query& row) { row.read(ids.emplace_back()); }, worker);
  return status ? Result<std::vector<std::string>>(std::move(ids)) : status.error();
}

Result<bool> SqliteTx::rotate_secret(const SecretRow& row) {
  const auto changed =
      connection_.run("UPDATE secret SET sealed = ?, expires = ? WHERE sandbox = ? AND name = ?",
                      row.sealed, row.expires, row.sandbox, row.name);
  return changed ? Result<bool>(*changed > 0) : changed.error();
}

Status SqliteTx::drop_deliveries(const std::string& sandbox) {
  return done(
      connection_.run("DELETE FROM delivery WHERE sandbox = ? AND state = 'queued'", sandbox));
}

}  // namespace sandboxkit::store
