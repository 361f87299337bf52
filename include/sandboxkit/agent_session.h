#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/file_eyes.h"
#include "sandboxkit/gate.h"
#include "sandboxkit/gate_prompt.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit {

/// How long a person has to answer.
inline constexpr std::chrono::milliseconds kAskTimeout{std::chrono::seconds(120)};
inline constexpr std::chrono::milliseconds kMaxAskTimeout{std::chrono::hours(1)};

/// The permanent grants at one moment.
struct GrantSnapshot {
  /// Never null; the same object as long as nothing changed.
  std::shared_ptr<const std::vector<PermanentGrant>> grants =
      std::make_shared<const std::vector<PermanentGrant>>();
  /// Why grants that are kept do not count; for the status.
  std::string problem{};
};

/// A grant that a person gave by an "always".
struct GrantToKeep {
  GrantedUse use;
  std::string tree;
  FileIdentity tree_identity;
  std::string agent;
  std::string by;
  /// The digest of the request that was answered.
  std::string request;
};

/// Who keeps permanent grants. Thread-safety: any thread.
class SANDBOXKIT_API GrantSource {
 public:
  virtual ~GrantSource() = default;
  /// Asked for every request, so it must be quick.
  virtual GrantSnapshot snapshot() = 0;
  /// Keeps a grant, and notes it in the audit log before that; returns its id. After an error
  /// nothing is kept.
  virtual Result<std::string> add(const PermissionGate& gate, const GrantToKeep& grant) = 0;
};

/// What encloses the agent's children, for the audit log and the status.
struct SessionBox {
  std::string id{};
  std::string backend{};
  std::string strength{};
};

struct AgentSessionOptions {
  /// `session` and `agent` are names of 1 to 256 bytes. The state folder is closed in any case.
  GateSession session;
  GatePolicy policy;
  PermissionMode mode;
  /// The gate's own folder, made (0700) where it is not there: grants, their key, the audit log. It
  /// lies in no root, and no root in it.
  std::string state_folder;
  /// Where the policy came from, and its generation; for the audit log.
  std::string policy_source{};
  std::uint64_t policy_generation = 0;
  SessionBox box{};
  std::chrono::milliseconds ask_timeout = kAskTimeout;
  /// Given by the embedding program: in `strict` there are no others.
  std::vector<GrantedUse> granted{};
};

/// What a session works with. All of it outlives the session and its sub-agents.
struct AgentSessionParts {
  const FileEyes& eyes;
  const Clock& clock;
  /// Absent: whatever would be asked is denied (`no_handler`).
  PromptHandler* handler = nullptr;
  /// Absent: the store in the state folder.
  GrantSource* grants = nullptr;
};

/// A decision that counts: its answer is allow or deny, never ask.
///
/// Besides those of GateItemDecision the reasons are `allowed_once`, `refused`, `refused_before`,
/// `no_handler`, `timeout`, `handler_error`, `cancelled`, `stopped`, `session_ended`,
/// `too_many_asks`, `too_large_to_ask`, `changes` (what is asked for is another thing each time
/// somebody looks), `audit_unavailable`, `tree_gone`.
struct GateOutcome {
  GateDecision decision{};
  /// It was allowed although it could not be written down: reads in mode `prompt` alone.
  bool unaudited = false;
};

/// What a file is opened for.
enum class OpenFor : std::uint8_t { kRead, kWrite, kReadWrite };

struct OpenRequest {
  /// Absolute; the base of a relative path.
  std::string cwd{};
  std::string path{};
  OpenFor use = OpenFor::kRead;
  /// Makes the file where it does not exist (with `permissions`, less the umask).
  bool create = false;
  /// It must not exist.
  bool exclusive = false;
  bool truncate = false;
  bool append = false;
  unsigned permissions = 0644;
  std::string why{};
};

/// A file that was judged and opened. Closes it, unless it is released.
class SANDBOXKIT_API OpenedFile final {
 public:
  explicit OpenedFile(int fd) : fd_(fd) {}
  OpenedFile(OpenedFile&& other) noexcept : fd_(other.release()) {}
  OpenedFile& operator=(OpenedFile&& other) noexcept;
  ~OpenedFile();
  int descriptor() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct OpenOutcome {
  GateOutcome outcome{};
  /// Errors: kPermissionDenied with the decision's reason; kInvalidArgument `not_a_file` for
  /// anything but a plain file; kConflict for a file that must not exist, or one that moved while
  /// it was judged (`moved`); else what the system says.
  Result<OpenedFile> file;
};

struct AgentSessionStatus {
  PermissionMode mode = PermissionMode::kPrompt;
  /// False in mode `off`: nothing is judged.
  bool active = true;
  /// No box encloses children, so every command is asked.
  bool unboxed = false;
  /// Why everything is denied by now: `stopped`, `session_ended`; or empty.
  std::string stopped{};
  bool audit_writable = true;
  std::string audit_problem{};
  std::uint64_t audit_lost = 0;
  /// Why permanent grants are ignored, or empty.
  std::string grants_problem{};
  std::size_t session_grants = 0;
};

/// The gate while an agent runs: judges, asks, remembers, writes down, opens.
///
/// It is for the program that acts for an agent and never for the agent itself: who holds it may
/// change the mode. Each object is one agent of a session; sub-agents get their own from it, share
/// the memory of refusals and the budget of questions, and have none of its grants but those that a
/// person gave to sub-agents too.
///
/// Thread-safety: any thread.
/// Source: design of the permission gate, 4.3, 4.6, 4.7, 6.
class SANDBOXKIT_API AgentSession final {
 public:
  /// Begins a session and writes that down.
  /// Errors: kInvalidArgument with the field: a name, `ask_timeout`, the policy, a grant that may
  /// not be given, `mode` when `strict` has no box (`no_box`), `bad_gate_folder`; what the audit
  /// log and the store of grants say. Without an audit log there is no session.
  static Result<std::unique_ptr<AgentSession>> start(AgentSessionOptions options,
                                                     const AgentSessionParts& parts);
  /// Ends the session when it is the one that was started; sub-agents' end by themselves.
  ~AgentSession();
  AgentSession(const AgentSession&) = delete;
  AgentSession& operator=(const AgentSession&) = delete;

  /// Decides, and asks a person where nothing else says. For files it is advice, and whoever uses
  /// the path afterwards may meet another object: `open` does not. A "once" is used up by this.
  ///
  /// Blocking: while a person is asked, at most `ask_timeout` for each of at most four prompts;
  /// and on the disk.
  GateOutcome check(const GateRequest& request, std::stop_token stop = {});

  /// Looks, judges and opens one plain file: the descriptor is of the object that was judged, and
  /// no path is resolved twice. Needs openat2 and /proc.
  OpenOutcome open(const OpenRequest& request, std::stop_token stop = {});

  /// An agent that this one starts. Errors: kInvalidArgument for the name, kConflict when it is
  /// taken, kResourceExhausted.
  Result<std::unique_ptr<AgentSession>> start_sub_agent(const std::string& agent);

  /// For all agents of the session, from the next request on; session grants are over with it.
  /// Errors: kConflict `mode_down` for a mode that judges less; kInvalidArgument for `strict`
  /// without a box; what the audit log says.
  Status set_mode(PermissionMode mode);

  /// Open prompts end, and whatever is asked from now on is denied. More than once is no harm.
  void end();

  AgentSessionStatus status() const;

  struct Impl;

 private:
  explicit AgentSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
