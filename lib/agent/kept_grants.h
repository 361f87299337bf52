#pragma once

#include "sandboxkit/agent_session.h"
#include "sandboxkit/grant_store.h"

#include "base/guarded.h"

#include <memory>

namespace sandboxkit::agent {

/// The store of permanent grants, as a session uses it. Thread-safety: any thread.
class StoredGrants final : public GrantSource {
 public:
  explicit StoredGrants(GrantStore& store) : store_(store) {}

  GrantSnapshot snapshot() override;
  Result<std::string> add(const PermissionGate& gate, const GrantToKeep& grant) override;

 private:
  struct Seen {
    std::shared_ptr<const KeptGrants> kept{};
    std::shared_ptr<const std::vector<PermanentGrant>> grants{};
  };
  GrantStore& store_;
  Guarded<Seen> seen_;
};

}  // namespace sandboxkit::agent
