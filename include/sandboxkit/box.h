#pragma once

#include "sandboxkit/box_plan.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit {

/// How much of a box a machine can give.
enum class BoxStrength : std::uint8_t {
  kNone,     ///< No box starts.
  kPartial,  ///< Namespaces, mounts and the filter of system calls stand; Landlock behind them does
             ///< not.
  kFull,
};

SANDBOXKIT_API const char* name_of(BoxStrength strength);

/// What this machine's kernel gives to this user, told by trying.
struct BoxKernel {
  bool user_namespaces = false;
  bool openat2 = false;
  /// open_tree, mount_setattr and move_mount: mounts by descriptors.
  bool mount_descriptors = false;
  /// A process list of its own can be mounted, which masked places in /proc forbid.
  bool own_proc = false;
  /// Needed for staged trees alone.
  bool overlay = false;
  bool seccomp = false;
  /// 0: there is no Landlock.
  int landlock_abi = 0;
  /// What is missing and why, in words.
  std::vector<std::string> problems{};

  SANDBOXKIT_API BoxStrength strength() const;
};

/// Tries each part in a process of its own, which ends at once. Blocking: some milliseconds, at
/// most five seconds.
SANDBOXKIT_API BoxKernel probe_box();

struct BoxTerminalSize {
  std::uint16_t columns = 80;
  std::uint16_t rows = 24;
};

/// A descriptor that the command is born with; every other one of ours is closed in the box.
struct BoxDescriptor {
  int ours;
  /// 0 to 31.
  int theirs;
};

/// What runs in a box.
struct BoxCommand {
  /// The program first. One without a `/` is looked up in the environment's PATH, in the box.
  std::vector<std::string> argv;
  /// Absolute, as seen in the box.
  std::string cwd;
  /// `NAME=VALUE`, and nothing else is there: BoxPlan::variables is for who makes this list.
  std::vector<std::string> environment{};
  std::vector<BoxDescriptor> descriptors{{0, 0}, {1, 1}, {2, 2}};
  /// A terminal of the box's own in place of descriptors 0, 1 and 2; see Box::terminal.
  std::optional<BoxTerminalSize> terminal{};
};

/// Who may be root outside. A box of root is root's own files behind one wall.
enum class BoxRoot : std::uint8_t {
  kRefuse,
  kAllow,  ///< The box has root's own user, without any capability.
};

struct BoxOptions {
  /// A folder of the caller's alone (0700), outside of every place that may be written. It keeps
  /// the journal of placeholders and the overlays of staged runs. Made when it is not there.
  std::string state_dir;
  /// A host's folder that is the box's home; empty: an empty home in memory.
  std::string home_folder{};
  /// The port on the box's loopback where a socket listens; the caller serves it (see
  /// Box::take_listener). 0: none.
  std::uint16_t listener_port = 0;
  BoxRoot root = BoxRoot::kRefuse;
  /// Places can be granted while it runs (Box::grant). It takes a second process, and Landlock then
  /// closes signals and sockets alone: it could not let a later place through.
  bool takes_grants = false;
  /// How long the set-up may take.
  std::chrono::milliseconds start_limit{10'000};
};

/// How a command ended: with a code, or by a signal.
struct BoxEnd {
  int exit_code = 0;
  int signal = 0;  ///< 0: none.
};

/// The overlays of a staged run; see box_changes.h.
struct BoxStaged {
  /// The run's folder in the state folder. It stays when the box goes.
  std::string dir{};
  /// The places that have an overlay, on the host; the n-th one's is in `dir`/oN.
  std::vector<std::string> roots{};
  /// Names that the box held with empty files in the overlay: no changes.
  std::vector<std::string> held{};
  /// As Box::began_ns.
  std::int64_t began_ns = 0;
};

/// One command behind walls of the kernel, with whatever it starts.
///
/// Every process of it ends with this object, with the command, and with the process that holds
/// this object. Whatever cannot be set up as planned means that the command does not start, and
/// that nothing is left behind.
/// Thread-safety: one thread at a time, but `signal` any thread.
class SANDBOXKIT_API Box {
 public:
  /// Errors: kInvalidArgument for a plan or command that makes no sense; kPermissionDenied
  /// `box_root` for root without BoxRoot::kAllow; kConflict `box_place_changed` when a place is not
  /// the object that was judged; kNotFound `command_not_found`; kUnavailable `box_unavailable` when
  /// the kernel refuses a part, with which one and why.
  /// Blocking: until the command executes, at most `start_limit`.
  static Result<std::unique_ptr<Box>> start(const BoxPlan& plan, const BoxCommand& command,
                                            const BoxOptions& options);
  virtual ~Box() = default;

  /// Waits for the command's end; nullopt when it still runs at the limit, without a limit never.
  virtual Result<std::optional<BoxEnd>> wait(std::optional<std::chrono::milliseconds> limit) = 0;
  /// Passes a signal to the command's process group. kill ends the whole box.
  virtual Status signal(int number) = 0;
  /// Shows one more of the host's files or directories in the box, at its own path, from now on:
  /// `places.front()`, kReadOnly or kReadWrite. The others lie below it and stand from the first
  /// moment: kHide, kReadOnly or kPin. Nothing judges them here: they are those of a new plan of
  /// the gate, and its absent names are for the sweep. Not for what the box has of its own
  /// (`/dev`). Errors: kConflict when the box takes no grants, or `box_place_changed`;
  /// kInvalidArgument; kUnavailable with the system's word. After an error nothing is shown.
  /// Blocking: some milliseconds, at most five seconds.
  virtual Status grant(std::span<const BoxPlace> places) = 0;
  /// What was granted there cannot be changed any more; it can be read until the box's end, as
  /// programs may have it open. Errors: kNotFound when it was not granted; kConflict
  /// `box_place_busy` while a program has a file open for writing there: end the box, or try again.
  virtual Status revoke(const std::string& path) = 0;
  /// The master side of the terminal, ours as long as the box; -1 without one.
  virtual int terminal() const = 0;
  virtual Status resize(BoxTerminalSize size) = 0;
  /// The socket that listens inside, once; it is the caller's then. -1 when there is none.
  virtual int take_listener() = 0;
  /// The first process of the box, as the host numbers it.
  virtual int pid() const = 0;
  /// Where the changes of a staged run lie; empty for a live one.
  virtual const BoxStaged& staged() const = 0;
  /// When the run began, by the clock that files are stamped with: nanoseconds since 1970.
  virtual std::int64_t began_ns() const = 0;
  /// Readable once the command ended, for poll.
  virtual int end_descriptor() const = 0;
};

}  // namespace sandboxkit
