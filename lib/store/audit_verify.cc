#include "base/text.h"
#include "io/fd.h"
#include "store/audit_chain.h"
#include "store/rows.h"
#include "store/schema.h"
#include "store/sqlite_tx.h"

#include <cerrno>
#include <utility>

#include <sys/stat.h>

namespace sandboxkit {
namespace {

using store::Connection;
using store::Query;

constexpr std::int64_t kFirstChainedVersion = 3;

Status check_kind(Connection& connection, const std::string& path) {
  std::int64_t application = 0;
  std::int64_t version = 0;
  const auto ask = [&](const char* pragma, std::int64_t& number) {
    return connection.each(pragma, [&](Query& row) { row.read(number); });
  };
  for (const Status& status :
       {ask("PRAGMA application_id", application), ask("PRAGMA user_version", version)}) {
    if (!status) {
      return status;
    }
  }
  if (application != store::kControllerSchema.application_id) {
    return store::store_unavailable(quoted(path) + " is no controller's store");
  }
  if (version < kFirstChainedVersion) {
    return store::store_unavailable("store " + quoted(path) +
                                    " is older than the chain of hashes; start its controller "
                                    "once, which chains what is there");
  }
  return {};
}

/// Settings and rows of one moment.
Result<AuditCheck> walk(Connection& connection) {
  store::SqliteTx tx(connection);
  const auto anchor = tx.setting(store::kAuditAnchor);
  const auto head = anchor ? tx.setting(store::kAuditHead) : anchor;
  if (!head) {
    return head.error();
  }
  store::AuditWalk walk(*anchor, *head);
  const std::string sql =
      std::string("SELECT ") + store::Table<store::AuditRow>::kColumns + " FROM audit ORDER BY seq";
  const auto take_row = [&](Query& query) {
    store::AuditRow row;
    std::apply([&](auto&... member) { (query.read(member), ...); },
               store::Table<store::AuditRow>::members(row));
    walk.take(row);
  };
  if (auto status = connection.each(sql, take_row); !status) {
    return status.error();
  }
  return walk.finish();
}

}  // namespace

Result<AuditCheck> verify_audit(const std::string& state_dir) {
  const std::string path = state_dir + "/controller.db";
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    const Error error = io::error_from_errno(quoted(path).c_str(), errno);
    return Error{errno == ENOENT ? ErrorCode::kNotFound : error.code, error.message, error.reason,
                 "state_dir"};
  }
  auto connection = Connection::open(path, Connection::Mode::kInspect);
  if (!connection) {
    return connection.error();
  }
  if (auto status = check_kind(**connection, path); !status) {
    return status.error();
  }
  if (auto status = (*connection)->script("BEGIN"); !status) {
    return status.error();
  }
  return walk(**connection);
}

}  // namespace sandboxkit
