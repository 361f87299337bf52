#pragma once

#include "sandboxkit/box_plan.h"

#include "box/launch.h"

#include <array>
#include <cstdint>

namespace sandboxkit::box {

inline constexpr std::size_t kMaxGrantPath = 4096;

enum class BrokerAct : std::uint8_t {
  kProtect,  ///< In the broker's own view, below what is given next: it goes into the box with it.
  kGive,
  kTakeBack,  ///< What was given there cannot be changed any more.
};

/// What the host asks of a box's broker, as it is: both are one program.
struct BrokerOrder {
  BrokerAct act = BrokerAct::kTakeBack;
  BoxAccess access = BoxAccess::kReadOnly;
  FileType type = FileType::kDirectory;
  FileIdentity identity{};
  std::array<char, kMaxGrantPath> path{};  ///< Without the first slash; ends with NUL.
};

struct BrokerAnswer {
  std::int32_t error_number = 0;
  /// The place is another object than the one that was judged.
  bool is_changed = false;
};

/// The broker of one box: a process in the box's user namespace, and in no other of it, that still
/// sees the host's files. It starts the box's first process as its own sibling, tells the host of
/// it, and then puts places into the box's mount namespace when the host asks. It ends when its
/// socket does. Between clone and exit it takes no lock and no memory. Never returns.
[[noreturn]] void run_broker(Launch& launch);

/// Bytes on the broker's socket, each with a descriptor.
inline constexpr char kFirstProcessMessage = 'P';  ///< A pidfd, from the broker to the host.
inline constexpr char kMountsMessage = 'M';        ///< From the box to its broker.

}  // namespace sandboxkit::box
