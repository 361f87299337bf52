#include "policy/access.h"

#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::policy;

namespace {

/// The document's table, written down once more as text: one letter a role, in the order
/// nobody, owner, member, operator, worker, join token, sandbox.
/// `+` allowed, `u` unauthenticated, `o` owner, `p` operator, `s` workspace, `w` worker role,
/// `k` worker required.
const std::map<Action, std::string> kTable = {
    {Action::kCreateSandbox, "u++swuo"},
    {Action::kListSandboxes, "u++swuo"},
    {Action::kReadSandbox, "u++swu+"},
    {Action::kDeleteSandbox, "u++swu+"},
    {Action::kRenewSandbox, "u++swu+"},
    {Action::kUseSandbox, "u++swu+"},
    {Action::kSetEgress, "u++swuo"},
    {Action::kRotateSecret, "u++swuo"},
    {Action::kMintSandboxToken, "u++swuo"},
    {Action::kListSandboxTokens, "u++swuo"},
    {Action::kRevokeSandboxToken, "u++swuo"},
    {Action::kListWorkers, "u+++wuo"},
    {Action::kReadWorker, "u+++wuo"},
    {Action::kCordonWorker, "u+o+wuo"},
    {Action::kRemoveWorker, "u+o+wuo"},
    {Action::kMintJoinToken, "u+o+wuo"},
    {Action::kListJoinTokens, "u+o+wuo"},
    {Action::kRevokeJoinToken, "u+o+wuo"},
    {Action::kMintKey, "u+oswuo"},
    {Action::kListKeys, "u+oswuo"},
    {Action::kRevokeKey, "u+oswuo"},
    {Action::kCreateWorkspace, "upp+wup"},
    {Action::kListWorkspaces, "upp+wup"},
    {Action::kReadAudit, "u+o+wuo"},
    {Action::kListApprovals, "u+oswuo"},
    {Action::kAnswerApproval, "u+oswuo"},
    {Action::kLimitWorkspace, "upp+wup"},
    {Action::kJoinWorker, "uuuuw+u"},
    {Action::kOpenTunnel, "ukkk+uk"},
    {Action::kHeartbeat, "ukkk+uk"},
};

char letter(Access access) {
  switch (access) {
    case Access::kAllowed:
      return '+';
    case Access::kUnauthenticated:
      return 'u';
    case Access::kOwnerRequired:
      return 'o';
    case Access::kOperatorRequired:
      return 'p';
    case Access::kTenantRequired:
      return 's';
    case Access::kWorkerRole:
      return 'w';
    case Access::kWorkerRequired:
      return 'k';
  }
  return '?';
}

}  // namespace

TEST_CASE("every role and action agrees with the document's table") {
  REQUIRE(kTable.size() == kActions.size());
  for (const Action action : kActions) {
    CAPTURE(name_of(action));
    std::string row;
    for (const Role role : kRoles) {
      row += letter(decide(role, action));
    }
    CHECK(row == kTable.at(action));
  }
}

TEST_CASE("a refusal has a stable name and allowed is success") {
  for (const Action action : kActions) {
    for (const Role role : kRoles) {
      CAPTURE(name_of(action));
      CAPTURE(name_of(role));
      const Status status = check(role, action);
      CHECK(status.has_value() == (decide(role, action) == Access::kAllowed));
      if (!status) {
        CHECK_FALSE(status.error().reason.empty());
        CHECK_FALSE(status.error().message.empty());
      }
    }
  }
}

TEST_CASE("a worker's credential opens two routes, by method and path") {
  CHECK(is_worker_route("GET", "/v1/worker/tunnel"));
  CHECK(is_worker_route("POST", "/v1/worker/heartbeat"));
  CHECK_FALSE(is_worker_route("POST", "/v1/worker/tunnel"));
  CHECK_FALSE(is_worker_route("GET", "/v1/worker/heartbeat"));
  CHECK_FALSE(is_worker_route("GET", "/v1/worker/tunnel/"));
  CHECK_FALSE(is_worker_route("POST", "/v1/worker/join"));
  CHECK_FALSE(is_worker_route("GET", "/v1/sandboxes"));
}
