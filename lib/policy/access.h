#pragma once

#include "sandboxkit/result.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace sandboxkit::policy {

/// What a credential is to the control plane.
enum class Role : std::uint8_t {
  kNobody,     ///< No credential.
  kOwner,      ///< `sk_`: everything in its workspace.
  kMember,     ///< `sk_`: uses sandboxes, manages nothing.
  kOperator,   ///< `op_`: the deployment's; belongs to no workspace.
  kWorker,     ///< `wk_`: two routes.
  kJoinToken,  ///< `jn_`: one route.
  kSandbox,    ///< `sk_`: one sandbox of its workspace, by its id.
};
inline constexpr std::array kRoles = {Role::kNobody,   Role::kOwner,  Role::kMember,
                                      Role::kOperator, Role::kWorker, Role::kJoinToken,
                                      Role::kSandbox};

/// What can be done. Every route names exactly one.
enum class Action : std::uint8_t {
  kCreateSandbox,
  kListSandboxes,
  kReadSandbox,
  kDeleteSandbox,
  kRenewSandbox,
  kUseSandbox,    ///< exec, files, rpc, tcp.
  kSetEgress,     ///< The policy of the next creation, and a narrower one now.
  kRotateSecret,  ///< A new value for a lent secret.
  kMintSandboxToken,
  kListSandboxTokens,
  kRevokeSandboxToken,
  kListWorkers,
  kReadWorker,
  kCordonWorker,  ///< Cordon, uncordon, drain, taint.
  kRemoveWorker,
  kMintJoinToken,
  kListJoinTokens,
  kRevokeJoinToken,
  kMintKey,
  kListKeys,
  kRevokeKey,
  kCreateWorkspace,
  kListWorkspaces,
  kReadAudit,
  kListApprovals,  ///< What agents on people's machines ask.
  kAnswerApproval,
  kLimitWorkspace,
  kJoinWorker,
  kOpenTunnel,
  kHeartbeat,
};
inline constexpr std::array kActions = {
    Action::kCreateSandbox,     Action::kListSandboxes,      Action::kReadSandbox,
    Action::kDeleteSandbox,     Action::kRenewSandbox,       Action::kUseSandbox,
    Action::kSetEgress,         Action::kRotateSecret,       Action::kMintSandboxToken,
    Action::kListSandboxTokens, Action::kRevokeSandboxToken, Action::kListWorkers,
    Action::kReadWorker,        Action::kCordonWorker,       Action::kRemoveWorker,
    Action::kMintJoinToken,     Action::kListJoinTokens,     Action::kRevokeJoinToken,
    Action::kMintKey,           Action::kListKeys,           Action::kRevokeKey,
    Action::kCreateWorkspace,   Action::kListWorkspaces,     Action::kReadAudit,
    Action::kListApprovals,     Action::kAnswerApproval,     Action::kLimitWorkspace,
    Action::kJoinWorker,        Action::kOpenTunnel,         Action::kHeartbeat};

/// The answer of the table. Everything but `kAllowed` is a refusal.
enum class Access : std::uint8_t {
  kAllowed,
  kUnauthenticated,  ///< 401
  kOwnerRequired,    ///< 403, likewise below.
  kOperatorRequired,
  kTenantRequired,  ///< The credential belongs to no workspace.
  kWorkerRole,      ///< A worker's credential outside of its two routes.
  kWorkerRequired,  ///< One of these two routes without a worker's credential.
};

/// Role x action: the one table. Whose object it is (own workspace, unscoped) is a look-up that
/// comes later and answers "absent" for what is foreign.
///
/// Blocking: never. Thread-safety: pure.
/// Source: architecture, section 3; design, section 5.
Access decide(Role role, Action action);

/// `decide` as an Error: kUnauthenticated or kPermissionDenied with the refusal's stable name.
Status check(Role role, Action action);

/// Whether a path is one of the two that a worker's credential opens.
bool is_worker_route(std::string_view method, std::string_view path);

const char* name_of(Role role);
const char* name_of(Action action);

}  // namespace sandboxkit::policy
