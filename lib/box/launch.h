#pragma once

#include "box/failure.h"
#include "box/layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include <linux/filter.h>
#include <sys/types.h>

namespace sandboxkit::box {

inline constexpr int kMaxTheirs = 31;
/// Copies of descriptors stand above all of the command's.
inline constexpr int kAboveAll = 64;

struct Descriptor {
  int ours;
  int theirs;
};

/// All that the first process of a box needs, laid out before it exists: from clone to exec it may
/// take no lock and no memory.
struct Launch {
  const Layout& layout;
  std::vector<int> shown{};  ///< Room for one mount a step.
  /// `uid uid 1` and the same for the group, as the kernel reads them.
  std::string uid_map{};
  std::string gid_map{};
  /// The folder of this run below the root, for overlays; empty for a live one.
  std::string run_dir{};
  std::uint16_t listener_port = 0;
  bool terminal = false;
  std::uint16_t columns = 0;
  std::uint16_t rows = 0;
  bool allow_nested = false;
  int landlock_abi = 0;
  std::vector<sock_filter> filter{};
  std::vector<Descriptor> descriptors{};  ///< By `theirs`, rising.
  std::string cwd{};
  std::vector<const char*> candidates{};  ///< Ends with a null pointer, as the next two.
  std::vector<char*> argv{};
  std::vector<char*> environment{};
  int report = -1;   ///< A pipe: one Failure, or its end when the command executes.
  int control = -1;  ///< A socket: its end ends the box.
  /// Only with a broker: its socket to the host, and the pair between it and the box.
  int broker = -1;
  int broker_own = -1;
  int broker_box = -1;
  bool has_broker() const { return broker >= 0; }
};

/// Bytes on the control socket, each with what it says.
inline constexpr char kListenerMessage = 'L';  ///< With the socket that listens.
inline constexpr char kTerminalMessage = 'T';  ///< With the master side.

/// How the command ended, on the control socket after every descriptor.
struct EndMessage {
  char type = 'E';
  std::int32_t wait_status = 0;
};

/// The life of a box's first process. Never returns.
[[noreturn]] void run_inside(Launch& launch);

/// Says what failed and ends this process.
[[noreturn]] void fail_inside(const Launch& launch, Stage stage, int error_number,
                              std::size_t index = 0);

/// Everything in the mount namespace. Ends the process when a part cannot be done.
void build_mounts(Launch& launch);

/// Landlock over the writable places: nothing else can be changed, no signal and no abstract socket
/// leads out. Nothing where the kernel has none.
void restrict_writes(const Launch& launch);

}  // namespace sandboxkit::box
