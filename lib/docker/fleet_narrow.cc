// Fleet: a wall that is made narrower while its sandbox runs.
#include "base/text.h"
#include "docker/fleet.h"
#include "docker/helper_call.h"
#include "docker/narrowing.h"

#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::chrono::milliseconds kNarrowTimeout{5000};
constexpr int kConflict = 409;

}  // namespace

Status Fleet::narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                     const std::string& policy_hash) {
  const Operations::Turn turn = operations_.begin(sandbox, false);
  const auto known = find(sandbox);
  if (!known || known->ended) {
    return Error{ErrorCode::kNotFound,
                 "this worker runs no sandbox " + sandboxkit::quoted(sandbox.str()),
                 "sandbox_not_found"};
  }
  if (!known->egress) {
    return Error{ErrorCode::kConflict, "the sandbox was made without a wall", "cannot_retrofit"};
  }
  // The file first: a proxy that dies between the two starts as narrow as this one was to be.
  const egress::NarrowedPolicy narrowed{policy, policy_hash};
  if (Status kept = write_narrowing(egress_folder(config_.state_dir, sandbox), narrowed); !kept) {
    return kept;
  }
  if (!known->egress->ready()) {
    meet_again(*known);
  }
  auto connection = known->egress->connect();
  if (!connection) {
    return connection.error();
  }
  const auto reply = call_helper(std::move(*connection),
                                 {"/narrow", egress::write_narrowed(narrowed)}, kNarrowTimeout);
  if (!reply) {
    return reply.error();
  }
  if (reply->status == kConflict) {
    return Error{ErrorCode::kConflict, "the egress proxy has a narrower policy in force",
                 "policy_widens"};
  }
  if (reply->status < 200 || reply->status >= 300) {
    return Error{ErrorCode::kUnavailable,
                 "the egress proxy did not narrow its policy: it answered "
                 "status " +
                     std::to_string(reply->status)};
  }
  return {};
}

}  // namespace sandboxkit::docker
