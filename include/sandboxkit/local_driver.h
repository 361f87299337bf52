#pragma once

#include "sandboxkit/approvals.h"
#include "sandboxkit/driver.h"
#include "sandboxkit/gate_policy.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit {

/// The image that every sandbox of a LocalDriver has: the machine itself.
inline constexpr const char* kLocalImage = "local";

struct LocalDriverConfig {
  ControllerId controller;
  WorkerId worker;
  /// A folder that this driver owns (mode 0700), outside of the tree.
  std::string state_dir;
  std::string guest_binary;
  std::string egress_binary;
  /// The work tree that agents may change, and the home whose files are protected.
  std::string tree;
  std::string home;
  /// `$XDG_STATE_HOME/sandboxkit/gate`: policy.json (may be absent), grants, audit. Never in a
  /// tree.
  std::string gate_dir;
  PermissionMode mode = PermissionMode::kPrompt;
  /// Whose grants count here: not an agent's own word, but the owner's name for it.
  std::string agent = "agent";
  /// Agents of root: everything on the machine behind one wall.
  bool allow_root = false;
  std::chrono::milliseconds ask_timeout{120'000};
  /// Asks in place of `LocalDriver::approvals`: a terminal, a window. Null: questions wait there.
  /// Shared, as an embedder may ask at the same place for others.
  std::shared_ptr<PromptHandler> prompts{};
  /// As of a DockerDriver.
  std::vector<std::string> dns_servers{};
  std::vector<std::string> egress_hosts{};
  std::chrono::milliseconds create_timeout{30'000};
};

/// Agent mode: a sandbox is a box on this machine, in a person's own work tree.
///
/// Every call to its guest is judged by the permission gate; what nothing settles is asked of a
/// person through `approvals`, and the kernel enforces the same answers below. A box has no
/// interface but loopback, and no way out but its own egress proxy. It ends with this object:
/// nothing is adopted after a restart. One box at a time works in the live tree.
///
/// In mode `off` nothing is judged and no box stands: commands run as the worker's user, and no
/// wall can be asked for.
/// Thread-safety: any thread. Ownership: keeps threads of its own.
/// Source: design of the permission gate; design, section 9.
class SANDBOXKIT_API LocalDriver final : public Driver {
 public:
  /// Errors: kInvalidArgument naming the option: `permission_mode` for root without `allow_root`,
  /// and for `strict` where the kernel gives no full box; `policy_file`; a tree that is none, or
  /// that holds the home or the gate's folder.
  static Result<std::unique_ptr<LocalDriver>> create(LocalDriverConfig config, const Clock& clock);
  ~LocalDriver() override;

  Result<DriverCapabilities> probe() override;
  Status create(const SandboxOrder& order, std::stop_token stop) override;
  Status remove(const SandboxId& sandbox) override;
  Result<std::vector<SandboxReport>> list() override;
  Result<std::vector<SandboxReport>> adopt() override;
  Result<SandboxStats> stats(const SandboxId& sandbox) override;
  Result<int> connect_guest(const SandboxId& sandbox) override;
  Result<std::vector<DeniedEgress>> denied(const SandboxId& sandbox) override;
  Status narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                const std::string& policy_hash) override;
  /// No secrets are lent here. Errors: kConflict `worker_capability_unavailable`.
  Status lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) override;
  ApprovalBoard* approvals() override;
  void on_event(std::function<void(const DriverEvent&)> handler) override;

 private:
  struct Impl;
  explicit LocalDriver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
