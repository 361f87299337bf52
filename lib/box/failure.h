#pragma once

#include "sandboxkit/result.h"

#include "box/layout.h"

#include <cstdint>

namespace sandboxkit::box {

/// Where the set-up of a box ended.
enum class Stage : std::uint8_t {
  kNone,
  kDescriptors,
  kUser,     ///< The map of users and groups.
  kNetwork,  ///< Loopback, and the socket that listens there.
  kPrivate,  ///< Mounts that nobody outside sees.
  kRoot,     ///< `/` without changes.
  kMemory,   ///< The file system of areas.
  kProc,
  kPlace,    ///< Step `index` of the layout.
  kChanged,  ///< Step `index`: another object than the one that was judged.
  kOverlay,  ///< Step `index`.
  kTerminal,
  kDirectory,  ///< The command's working folder.
  kLandlock,
  kRights,  ///< Capabilities, no_new_privs.
  kFilter,
  kFork,
  kExec,
};

/// What the box's process says before it ends. Sent as it is: both ends are one program.
struct Failure {
  Stage stage = Stage::kNone;
  std::int32_t error_number = 0;
  std::uint32_t index = 0;
};

/// In words, for the machine's owner.
Error describe(const Failure& failure, const Layout& layout, const std::string& program,
               const std::string& cwd);

}  // namespace sandboxkit::box
