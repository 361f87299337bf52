#include "control/route_table.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <vector>

namespace sandboxkit::control {
namespace {

using policy::Action;

constexpr Route kRoutes[] = {
    {"POST", "/v1/sandboxes", Action::kCreateSandbox, "wait"},
    {"GET", "/v1/sandboxes", Action::kListSandboxes, "state limit after"},
    {"GET", "/v1/sandboxes/{id}", Action::kReadSandbox},
    {"DELETE", "/v1/sandboxes/{id}", Action::kDeleteSandbox},
    {"POST", "/v1/sandboxes/{id}/timeout", Action::kRenewSandbox},
    {"PUT", "/v1/sandboxes/{id}/egress", Action::kSetEgress},
    {"GET", "/v1/sandboxes/{id}/egress/denied", Action::kReadSandbox},
    {"GET", "/v1/sandboxes/{id}/egress/denied/stream", Action::kReadSandbox, "lines", true},
    {"GET", "/v1/sandboxes/{id}/secrets", Action::kReadSandbox},
    {"PUT", "/v1/sandboxes/{id}/secrets/{name}", Action::kRotateSecret},
    {"GET", "/v1/sandboxes/{id}/isolation", Action::kReadSandbox},
    {"GET", "/v1/sandboxes/{id}/stats", Action::kReadSandbox},
    {"POST", "/v1/sandboxes/{id}/tokens", Action::kMintSandboxToken},
    {"GET", "/v1/sandboxes/{id}/tokens", Action::kListSandboxTokens},
    {"DELETE", "/v1/sandboxes/{id}/tokens/{token}", Action::kRevokeSandboxToken},
    {"POST", "/v1/sandboxes/{id}/exec", Action::kUseSandbox, "", true},
    {"GET", "/v1/sandboxes/{id}/files", Action::kUseSandbox, "path username", true},
    {"PUT", "/v1/sandboxes/{id}/files", Action::kUseSandbox, "path username", true},
    {"DELETE", "/v1/sandboxes/{id}/files", Action::kUseSandbox, "path username recursive", true},
    {"POST", "/v1/sandboxes/{id}/rpc/{service}/{method}", Action::kUseSandbox, "", true},
    {"GET", "/v1/sandboxes/{id}/tcp/{port}", Action::kUseSandbox, "", true},
    {"GET", "/v1/workers", Action::kListWorkers},
    {"GET", "/v1/workers/{id}", Action::kReadWorker},
    {"POST", "/v1/workers/{id}/cordon", Action::kCordonWorker},
    {"POST", "/v1/workers/{id}/uncordon", Action::kCordonWorker},
    {"POST", "/v1/workers/{id}/drain", Action::kCordonWorker},
    {"PUT", "/v1/workers/{id}/taints", Action::kCordonWorker},
    {"DELETE", "/v1/workers/{id}", Action::kRemoveWorker},
    {"POST", "/v1/join-tokens", Action::kMintJoinToken},
    {"GET", "/v1/join-tokens", Action::kListJoinTokens},
    {"DELETE", "/v1/join-tokens/{id}", Action::kRevokeJoinToken},
    {"POST", "/v1/keys", Action::kMintKey},
    {"GET", "/v1/keys", Action::kListKeys},
    {"DELETE", "/v1/keys/{id}", Action::kRevokeKey},
    {"POST", "/v1/workspaces", Action::kCreateWorkspace},
    {"GET", "/v1/workspaces", Action::kListWorkspaces},
    {"GET", "/v1/audit", Action::kReadAudit, "limit after"},
    {"GET", "/v1/approvals", Action::kListApprovals, "wait"},
    {"POST", "/v1/approvals/{id}", Action::kAnswerApproval},
    {"PUT", "/v1/workspaces/{id}/limits", Action::kLimitWorkspace},
    {"POST", "/v1/worker/join", Action::kJoinWorker},
    {"POST", "/v1/worker/heartbeat", Action::kHeartbeat},
    {"GET", "/v1/worker/tunnel", Action::kOpenTunnel, "", true},
};

constexpr std::string_view kSandboxPrefix = "/v1/sandboxes/";
constexpr std::array<std::string_view, 2> kGuestServices = {"process.Process",
                                                            "filesystem.Filesystem"};
constexpr std::size_t kMaxMethodChars = 64;

bool is_rpc_method(std::string_view text) {
  return !text.empty() && text.size() <= kMaxMethodChars && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

std::optional<StreamMatch> match_rpc(StreamMatch match, std::string_view service,
                                     std::string_view method) {
  if (std::ranges::find(kGuestServices, service) == kGuestServices.end() ||
      !is_rpc_method(method)) {
    return std::nullopt;
  }
  match.kind = StreamMatch::Kind::kRpc;
  match.guest_path = "/" + std::string(service) + "/" + std::string(method);
  match.allow = "POST";
  return match;
}

std::optional<StreamMatch> match_tcp(StreamMatch match, std::string_view port) {
  const auto number = parse_decimal(port, 65535);
  if (!number || *number == 0) {
    return std::nullopt;
  }
  match.kind = StreamMatch::Kind::kTcp;
  match.port = static_cast<std::uint16_t>(*number);
  match.allow = "GET";
  return match;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

bool has_word(std::string_view words, std::string_view word) {
  return !word.empty() && std::ranges::any_of(split(words, ' '),
                                              [&](std::string_view each) { return each == word; });
}

std::optional<StreamMatch> match_stream(std::string_view path) {
  StreamMatch match;
  if (path == "/v1/worker/tunnel") {
    match.allow = "GET";
    return match;
  }
  if (!path.starts_with(kSandboxPrefix)) {
    return std::nullopt;
  }
  const std::vector<std::string_view> parts = split(path.substr(kSandboxPrefix.size()), '/');
  if (parts.size() < 2 || parts[0].empty()) {
    return std::nullopt;
  }
  match.sandbox = std::string(parts[0]);
  if (parts.size() == 2 && parts[1] == "exec") {
    match.kind = StreamMatch::Kind::kExec;
    match.guest_path = "/exec";
    match.allow = "POST";
    return match;
  }
  if (parts.size() == 2 && parts[1] == "files") {
    match.kind = StreamMatch::Kind::kFiles;
    match.guest_path = "/files";
    match.allow = "GET, PUT, DELETE";
    return match;
  }
  if (parts.size() == 4 && parts[1] == "egress" && parts[2] == "denied" && parts[3] == "stream") {
    match.kind = StreamMatch::Kind::kDenied;
    match.allow = "GET";
    return match;
  }
  if (parts.size() == 4 && parts[1] == "rpc") {
    return match_rpc(std::move(match), parts[2], parts[3]);
  }
  if (parts.size() == 3 && parts[1] == "tcp") {
    return match_tcp(std::move(match), parts[2]);
  }
  return std::nullopt;
}

}  // namespace sandboxkit::control
