#include "box/failure.h"

#include "base/text.h"

#include <cerrno>
#include <cstring>

namespace sandboxkit::box {
namespace {

Error unavailable(const std::string& what, int error_number) {
  return {ErrorCode::kUnavailable, "the box cannot start: " + what + ": " + strerror(error_number),
          "box_unavailable"};
}

Error of_place(const Failure& failure, const Layout& layout) {
  const Step& step = layout.steps.at(failure.index);
  const std::string path = quoted("/" + step.path);
  std::string field;
  if (step.place != kNoIndex) {
    field = "places[" + std::to_string(step.place) + "]";
  }
  if (failure.stage == Stage::kChanged) {
    return {ErrorCode::kConflict,
            path + " is not what was judged any more (or a link leads there); ask the gate again",
            "box_place_changed", field};
  }
  if (failure.stage == Stage::kOverlay) {
    Error error = unavailable("an overlay over " + path, failure.error_number);
    error.message += " (mounts below it, or a file system without overlays: run it live)";
    error.field = field;
    return error;
  }
  Error error = unavailable("place " + path, failure.error_number);
  error.field = field;
  return error;
}

Error of_command(const Failure& failure, const std::string& program) {
  const std::string name = quoted(program);
  if (failure.error_number == ENOENT || failure.error_number == ENOTDIR) {
    return {ErrorCode::kNotFound, "command not found in the box: " + name, "command_not_found",
            "argv[0]"};
  }
  return {ErrorCode::kPermissionDenied,
          "command " + name + " cannot be executed: " + strerror(failure.error_number),
          "command_not_executable", "argv[0]"};
}

}  // namespace

Error describe(const Failure& failure, const Layout& layout, const std::string& program,
               const std::string& cwd) {
  const int number = failure.error_number;
  switch (failure.stage) {
    case Stage::kPlace:
    case Stage::kChanged:
    case Stage::kOverlay:
      return of_place(failure, layout);
    case Stage::kExec:
      return of_command(failure, program);
    case Stage::kDirectory:
      return {ErrorCode::kInvalidArgument,
              "the folder " + quoted(cwd) + " cannot be entered in the box: " + strerror(number),
              "cwd_not_found", "cwd"};
    case Stage::kDescriptors:
      return unavailable("descriptors", number);
    case Stage::kUser:
      return unavailable("the map of users", number);
    case Stage::kNetwork:
      return unavailable("loopback", number);
    case Stage::kPrivate:
      return unavailable("private mounts", number);
    case Stage::kRoot:
      return unavailable("a root without changes", number);
    case Stage::kMemory:
      return unavailable("a file system in memory", number);
    case Stage::kProc:
      return unavailable("a /proc of its own (are places in /proc masked here?)", number);
    case Stage::kTerminal:
      return unavailable("a terminal of its own", number);
    case Stage::kLandlock:
      return unavailable("Landlock", number);
    case Stage::kRights:
      return unavailable("giving up rights", number);
    case Stage::kFilter:
      return unavailable("the filter of system calls", number);
    case Stage::kFork:
      return unavailable("another process", number);
    case Stage::kNone:
      break;
  }
  return {ErrorCode::kInternal, "the box ended before its command started", "box_unavailable"};
}

}  // namespace sandboxkit::box
