// The audit log: as the controller shows it, and as it lies on its disk.

#include "sandboxkit/audit.h"

#include "sandboxkit/clock.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace sandboxkit::cli {
namespace {

json::Value check_view(const AuditCheck& check) {
  return json::Object{
      {"rows", check.rows},
      {"intact", check.intact()},
      {"head", json::Object{{"row", check.head_seq}, {"hash", check.head_hash}}},
      {"broken_row", check.intact() ? json::Value(nullptr) : json::Value(check.broken_row)},
      {"problem", check.problem}};
}

}  // namespace

int list_audit(const Common& common, const std::string& after) {
  const std::string target =
      "/v1/audit?limit=500" + (after.empty() ? "" : "&after=" + percent_encode(after));
  return print_listing(common, {target,
                                "audit",
                                {"TIME", "ACTOR", "ACTION", "TARGET", "OUTCOME", "ADDRESS"},
                                [](const json::Value& line, WallTime) {
                                  return std::vector<std::string>{
                                      cell(line, "time"),    cell(line, "actor"),
                                      cell(line, "action"),  cell(line, "target"),
                                      cell(line, "outcome"), cell(line, "address")};
                                },
                                "nothing was done yet"});
}

int verify_audit_log(const std::string& state_dir, bool as_json) {
  const auto check = verify_audit(state_dir);
  if (!check) {
    return fail(check.error());
  }
  if (as_json) {
    print_json(check_view(*check));
  } else if (check->intact()) {
    print_line(std::to_string(check->rows) + " rows, chain intact");
    if (is_terminal(kStandardOutput) && check->head_seq > 0) {
      write_all(kStandardError,
                "head: row " + std::to_string(check->head_seq) + ", " + check->head_hash + "\n");
    }
  } else {
    print_line("row " + std::to_string(check->broken_row) + ": " + printable(check->problem));
  }
  return check->intact() ? kExitOk : kExitRefused;
}

}  // namespace sandboxkit::cli
