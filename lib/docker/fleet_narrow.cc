// Fleet: a wall that is made narrower while its sandbox runs.
#include "base/text.h"
#include "docker/fleet.h"
#include "docker/narrowing.h"
#include "docker/proxy_questions.h"

#include <utility>

namespace sandboxkit::docker {
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
  return tell_narrowed(*known->egress, narrowed);
}

}  // namespace sandboxkit::docker
