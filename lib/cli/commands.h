#pragma once

#include "cli/create.h"
#include "cli/settings.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::cli {

/// What each command of `sandboxkit` does, after its options were read. Every function prints its
/// result on standard output, its errors on standard error, and returns the exit code.

struct Common {
  Connection connection{};
  /// JSON for programs in place of tables for people.
  bool json = false;
};

struct RunOptions {
  CreateOptions create{};
  std::vector<std::string> command{};
  std::string cwd{};
  std::string user{};
  bool keep = false;
};

struct ExecOptions {
  std::string sandbox{};
  std::vector<std::string> command{};
  std::vector<std::string> env{};
  std::string cwd{};
  std::string user{};
  std::string timeout{};
  bool interactive = false;
  bool terminal = false;
};

struct ListOptions {
  bool all = false;
  bool quiet = false;
  /// Names, and ids where there is none.
  bool names = false;
};

struct RemoveOptions {
  std::vector<std::string> sandboxes{};
  bool all = false;
  bool force = false;
};

int create_sandbox(const Common& common, const CreateOptions& options);
int run_command(const Common& common, const RunOptions& options);
int exec_command(const Common& common, const ExecOptions& options);
int open_shell(const Common& common, const ExecOptions& options);
int list_sandboxes(const Common& common, const ListOptions& options);
int remove_sandboxes(const Common& common, const RemoveOptions& options);
int show_sandbox(const Common& common, const std::string& sandbox);
/// What agents ask, and a person's answer to one of the questions.
int list_approvals(const Common& common, std::int64_t wait_seconds);
int answer_approval(const Common& common, const std::string& id, const std::string& answer);
int show_isolation(const Common& common, const std::string& sandbox);
int renew_sandbox(const Common& common, const std::string& sandbox, const std::string& timeout);
int copy_files(const Common& common, const std::string& from, const std::string& to);

struct TokenOptions {
  std::string name{};
  std::string ttl{};
  std::optional<std::int64_t> max_uses{};
  std::vector<std::string> capabilities{};
  std::vector<std::string> networks{};
  bool unscoped = false;
};

struct WorkspaceOptions {
  std::string id{};
  std::string name{};
  std::optional<std::int64_t> max_sandboxes{};
  std::optional<double> max_cpu_cores{};
  std::optional<std::int64_t> max_memory_mb{};
};

struct KeyOptions {
  std::string role = "member";
  std::string name{};
  std::string ttl{};
  /// Not a key of the workspace, but a token for this sandbox alone.
  std::string sandbox{};
  std::optional<std::int64_t> max_sandboxes{};
  std::optional<double> max_cpu_cores{};
  std::optional<std::int64_t> max_memory_mb{};
};

int list_workers(const Common& common);
/// `action`: `cordon` or `uncordon`.
int change_worker(const Common& common, const std::string& worker, const std::string& action);
/// `deadline` empty: until the last sandbox has ended by itself.
int drain_worker(const Common& common, const std::string& worker, const std::string& deadline);
/// Replaces its taints; none lifts all.
int taint_worker(const Common& common, const std::string& worker,
                 const std::vector<std::string>& taints);
int remove_worker(const Common& common, const std::string& worker);
int create_token(const Common& common, const TokenOptions& options);
int list_tokens(const Common& common);
int remove_token(const Common& common, const std::string& id);
int create_key(const Common& common, const KeyOptions& options);
/// With a sandbox: its tokens.
int list_keys(const Common& common, const std::string& sandbox);
int remove_key(const Common& common, const std::string& id, const std::string& sandbox);
int create_workspace(const Common& common, const WorkspaceOptions& options);
int list_workspaces(const Common& common);
int list_audit(const Common& common, const std::string& after);
/// Without a controller: ends with 0 when the chain is intact, else 3.
int verify_audit_log(const std::string& state_dir, bool as_json);

struct GateAuditOptions {
  /// The folder of the gate's log.
  std::string dir{};
  /// Empty: the heads' signatures are not looked at.
  std::string key_file{};
  std::string session{};
  std::string kind{};
  std::string decision{};
  std::int64_t limit = 0;
  bool follow = false;
  bool json = false;
};

/// Without a controller, and also while the gate runs: ends with 0 when the log is intact, 1 when
/// it is broken, 2 when that cannot be told.
int verify_gate_audit(const GateAuditOptions& options);
int show_gate_audit(const GateAuditOptions& options);
int tail_gate_audit(const GateAuditOptions& options);
/// Replaces its limits; what is absent is the deployment's default.
int limit_workspace(const Common& common, const WorkspaceOptions& options);

struct DeniedOptions {
  std::string sandbox{};
  bool follow = false;
  /// Print a policy that would allow it instead.
  bool suggest = false;
};

struct EgressSetOptions {
  std::string sandbox{};
  std::vector<std::string> allow{};
  std::vector<std::string> allow_networks{};
  bool deny_all = false;
  bool now = false;
};

int list_denied(const Common& common, const DeniedOptions& options);
int set_egress(const Common& common, const EgressSetOptions& options);
int log_in(const Common& common);

struct EgressCheckOptions {
  std::string policy_file{};
  std::string resolved{};
  std::string server_name{};
  std::vector<std::string> targets{};
};

struct PlaceOptions {
  std::string fleet_file{};
  std::string create_file{};
  std::int64_t repeat = 1;
  bool json = false;
};

/// Without a controller.
int check_egress(const EgressCheckOptions& options);
int place(const PlaceOptions& options);

}  // namespace sandboxkit::cli
