#include "policy/access.h"

#include <string>

namespace sandboxkit::policy {
namespace {

/// What the roles of people get for one action; worker, join token and nobody are decided before.
struct Row {
  Access owner;
  Access member;
  Access operator_;
  Access sandbox;
};

constexpr Row kTenantUse = {Access::kAllowed, Access::kAllowed, Access::kTenantRequired,
                            Access::kOwnerRequired};
constexpr Row kSandboxUse = {Access::kAllowed, Access::kAllowed, Access::kTenantRequired,
                             Access::kAllowed};
constexpr Row kFleetView = {Access::kAllowed, Access::kAllowed, Access::kAllowed,
                            Access::kOwnerRequired};
constexpr Row kFleetCare = {Access::kAllowed, Access::kOwnerRequired, Access::kAllowed,
                            Access::kOwnerRequired};
constexpr Row kTenantCare = {Access::kAllowed, Access::kOwnerRequired, Access::kTenantRequired,
                             Access::kOwnerRequired};
constexpr Row kDeployment = {Access::kOperatorRequired, Access::kOperatorRequired, Access::kAllowed,
                             Access::kOperatorRequired};
constexpr Row kJoining = {Access::kUnauthenticated, Access::kUnauthenticated,
                          Access::kUnauthenticated, Access::kUnauthenticated};
constexpr Row kWorkerOnly = {Access::kWorkerRequired, Access::kWorkerRequired,
                             Access::kWorkerRequired, Access::kWorkerRequired};

const Row& row_of(Action action) {
  switch (action) {
    case Action::kCreateSandbox:
    case Action::kListSandboxes:
    case Action::kMintSandboxToken:
    case Action::kListSandboxTokens:
    case Action::kRevokeSandboxToken:
    case Action::kSetEgress:
    case Action::kRotateSecret:
      return kTenantUse;
    case Action::kReadSandbox:
    case Action::kDeleteSandbox:
    case Action::kRenewSandbox:
    case Action::kUseSandbox:
      return kSandboxUse;
    case Action::kListWorkers:
    case Action::kReadWorker:
      return kFleetView;
    case Action::kCordonWorker:
    case Action::kRemoveWorker:
    case Action::kMintJoinToken:
    case Action::kListJoinTokens:
    case Action::kRevokeJoinToken:
    case Action::kReadAudit:
      return kFleetCare;
    case Action::kMintKey:
    case Action::kListKeys:
    case Action::kRevokeKey:
    case Action::kListApprovals:
    case Action::kAnswerApproval:
      return kTenantCare;
    case Action::kCreateWorkspace:
    case Action::kListWorkspaces:
    case Action::kLimitWorkspace:
      return kDeployment;
    case Action::kJoinWorker:
      return kJoining;
    case Action::kOpenTunnel:
    case Action::kHeartbeat:
      return kWorkerOnly;
  }
  return kWorkerOnly;  // A value outside of the enumeration: nobody of the table may.
}

Error denied(const char* reason, const char* message) {
  return Error{ErrorCode::kPermissionDenied, message, reason};
}

}  // namespace

Access decide(Role role, Action action) {
  switch (role) {
    case Role::kNobody:
      return Access::kUnauthenticated;
    case Role::kWorker:
      return action == Action::kOpenTunnel || action == Action::kHeartbeat ? Access::kAllowed
                                                                           : Access::kWorkerRole;
    case Role::kJoinToken:
      return action == Action::kJoinWorker ? Access::kAllowed : Access::kUnauthenticated;
    case Role::kOwner:
      return row_of(action).owner;
    case Role::kMember:
      return row_of(action).member;
    case Role::kOperator:
      return row_of(action).operator_;
    case Role::kSandbox:
      return row_of(action).sandbox;
  }
  return Access::kUnauthenticated;
}

Status check(Role role, Action action) {
  switch (decide(role, action)) {
    case Access::kAllowed:
      return {};
    case Access::kUnauthenticated:
      return Error{ErrorCode::kUnauthenticated,
                   action == Action::kJoinWorker ? "a join token (`jn_...`) is required"
                                                 : "an API key is required; send it as "
                                                   "`Authorization: Bearer sk_...`",
                   "unauthenticated"};
    case Access::kOwnerRequired:
      return denied("owner_required", "this needs a key of the role `owner` of the workspace");
    case Access::kOperatorRequired:
      return denied("operator_required", "this needs the deployment's operator credential");
    case Access::kTenantRequired:
      return denied("tenant_required",
                    "the operator credential belongs to no workspace; use a key of the workspace");
    case Access::kWorkerRole:
      return denied("worker_role",
                    "a worker's credential opens its tunnel and its heartbeat, nothing else");
    case Access::kWorkerRequired:
      return denied("worker_required", "this needs a worker's own credential");
  }
  return denied("owner_required", "this is not allowed");
}

bool is_worker_route(std::string_view method, std::string_view path) {
  return (method == "GET" && path == "/v1/worker/tunnel") ||
         (method == "POST" && path == "/v1/worker/heartbeat");
}

const char* name_of(Role role) {
  switch (role) {
    case Role::kNobody:
      return "nobody";
    case Role::kOwner:
      return "owner";
    case Role::kMember:
      return "member";
    case Role::kOperator:
      return "operator";
    case Role::kWorker:
      return "worker";
    case Role::kJoinToken:
      return "join_token";
    case Role::kSandbox:
      return "sandbox";
  }
  return "nobody";
}

const char* name_of(Action action) {
  switch (action) {
    case Action::kCreateSandbox:
      return "sandbox.create";
    case Action::kListSandboxes:
      return "sandbox.list";
    case Action::kReadSandbox:
      return "sandbox.read";
    case Action::kDeleteSandbox:
      return "sandbox.delete";
    case Action::kRenewSandbox:
      return "sandbox.renew";
    case Action::kUseSandbox:
      return "sandbox.use";
    case Action::kSetEgress:
      return "sandbox.egress";
    case Action::kRotateSecret:
      return "sandbox.lend";
    case Action::kMintSandboxToken:
      return "sandbox_token.mint";
    case Action::kListSandboxTokens:
      return "sandbox_token.list";
    case Action::kRevokeSandboxToken:
      return "sandbox_token.revoke";
    case Action::kListWorkers:
      return "worker.list";
    case Action::kReadWorker:
      return "worker.read";
    case Action::kCordonWorker:
      return "worker.cordon";
    case Action::kRemoveWorker:
      return "worker.remove";
    case Action::kMintJoinToken:
      return "join_token.mint";
    case Action::kListJoinTokens:
      return "join_token.list";
    case Action::kRevokeJoinToken:
      return "join_token.revoke";
    case Action::kMintKey:
      return "key.mint";
    case Action::kListKeys:
      return "key.list";
    case Action::kRevokeKey:
      return "key.revoke";
    case Action::kCreateWorkspace:
      return "workspace.create";
    case Action::kListWorkspaces:
      return "workspace.list";
    case Action::kReadAudit:
      return "audit.read";
    case Action::kListApprovals:
      return "approval.list";
    case Action::kAnswerApproval:
      return "approval.answer";
    case Action::kLimitWorkspace:
      return "workspace.limit";
    case Action::kJoinWorker:
      return "worker.join";
    case Action::kOpenTunnel:
      return "worker.tunnel";
    case Action::kHeartbeat:
      return "worker.heartbeat";
  }
  return "unknown";
}

}  // namespace sandboxkit::policy
