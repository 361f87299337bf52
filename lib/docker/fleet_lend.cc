// Fleet: secrets that are lent to sandboxes.
#include "base/text.h"
#include "docker/fleet.h"
#include "docker/lending.h"

#include <utility>

namespace sandboxkit::docker {

Result<Fleet::Lending> Fleet::prepare_lending(const SandboxOrder& order) const {
  if (order.spec.secrets.empty()) {
    return Lending{};
  }
  auto roots = read_roots(config_.egress_ca_file);
  if (!roots) {
    return roots.error();
  }
  auto authority = make_lending(order, system_clock().now());
  if (!authority) {
    return authority.error();
  }
  Trust trust{authority->certificate, std::move(*roots)};
  return Lending{std::move(*authority), std::move(trust)};
}

Result<std::shared_ptr<SecretFeed>> Fleet::begin_lending(const SandboxOrder& order,
                                                         const Lending& lending,
                                                         const Built& built) {
  if (order.spec.secrets.empty()) {
    return std::shared_ptr<SecretFeed>();
  }
  const std::string folder = sandbox_folder(config_.state_dir, order.sandbox);
  if (Status kept = keep_lending(folder, lending.authority); !kept) {
    return kept.error();
  }
  auto feed = SecretFeed::start(hub_, built.egress);
  Status lent = feed->put(order_text(order.spec.secrets, lending.authority, lending.trust.roots));
  return lent ? Result<std::shared_ptr<SecretFeed>>(std::move(feed)) : lent.error();
}

Status Fleet::lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) {
  const Operations::Turn turn = operations_.begin(sandbox, false);
  return lend_known(sandbox, secrets);
}

Status Fleet::lend_known(const SandboxId& sandbox, std::span<const LentSecret> secrets) {
  auto known = find(sandbox);
  if (!known || known->ended) {
    return Error{ErrorCode::kNotFound,
                 "this worker runs no sandbox " + sandboxkit::quoted(sandbox.str()),
                 "sandbox_not_found"};
  }
  const auto authority = read_lending(sandbox_folder(config_.state_dir, sandbox));
  if (!authority || !known->egress) {
    return secrets.empty()
               ? Status()
               : Status(Error{ErrorCode::kConflict, "the sandbox was made without secrets",
                              "worker_capability_unavailable", "secrets"});
  }
  const auto roots = read_roots(config_.egress_ca_file);
  if (!roots) {
    return roots.error();
  }
  if (!known->egress->ready()) {
    meet_again(*known);
  }
  if (!known->secrets) {
    known->secrets = SecretFeed::start(hub_, known->egress);
    known_.with([&](auto& all) {
      if (const auto found = all.find(sandbox); found != all.end()) {
        found->second.secrets = known->secrets;
      }
    });
  }
  return known->secrets->put(order_text(secrets, *authority, *roots));
}

}  // namespace sandboxkit::docker
