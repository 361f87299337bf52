#pragma once

#include "sandboxkit/export.h"
#include "sandboxkit/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// What an agent wants to do. Source: design of the permission gate, 4.1.
enum class GateOperation : std::uint8_t {
  kRead,
  kList,
  kStat,
  kWrite,
  kCreate,
  kDelete,
  kMeta,     ///< chmod, chown, utimes, extended attributes.
  kRename,   ///< Judged as a delete of the source and a create and write of the target.
  kLink,     ///< Judged as read and write of the source and a create of the link.
  kSymlink,  ///< Judged as a create; the text of the link is judged when it is used.
  kExec,
  kEnv,      ///< Pass a variable of the host into the box.
  kConnect,  ///< `host:port`.
  kUnix,     ///< A unix socket's path; apart from read and write on purpose.
  kListen,   ///< `address:port`.
  kSignal,
  kPtrace,
  kMount,
  kDevice,
  kUnknown,  ///< Something else. Always denied.
};

SANDBOXKIT_API const char* name_of(GateOperation operation);
/// Errors: kInvalidArgument, field `op`; `unknown` is no name to ask for.
SANDBOXKIT_API Result<GateOperation> gate_operation_from(std::string_view name);

/// One operation with what it is aimed at. Made by default it is denied.
struct GateItem {
  GateOperation operation = GateOperation::kUnknown;
  /// A path, a variable's name, or `host:port`, as it was asked. Never expanded: `~` is a letter.
  std::string target{};
  /// The new path of a rename or link, the text of a symlink; else empty.
  std::string to{};
  /// Of an exec: the text of a shell, or else `argv`, the program's own name first.
  std::string command{};
  std::vector<std::string> argv{};
  /// Why the item could not be read; one that has a problem is denied as malformed.
  std::string problem{};
};

/// What is decided as one: the strictest item wins, all items are judged.
struct GateRequest {
  /// Absolute; the base of relative paths. Without it every relative path is malformed.
  std::string cwd{};
  std::vector<GateItem> items{};
  /// The agent's own words: shown, never trusted.
  std::string why{};
};

}  // namespace sandboxkit
