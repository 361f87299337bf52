#pragma once

#include "base/fault_points_config.h"

#include <array>
#include <cstddef>
#include <string_view>

/// Places at which a test build can be told to die, as if by `kill -9` at exactly that moment.
///
/// In a build with the meson option `fault_points`, a process whose environment has
/// `SANDBOXKIT_FAULT=NAME` (or `NAME:N`) kills itself by SIGKILL when it passes the place of that
/// name for the first (N-th) time, after one line on standard error. In every other build the macro
/// is nothing, and no program contains the variable's name (tools/check_links.sh looks).
/// tests/system/test_fault_points.py dies at each of them and holds what the restart must give.
namespace sandboxkit {

/// The whole list: a name that is not in it does not compile, and one that no test reaches fails.
inline constexpr auto kFaultPoints = std::to_array<std::string_view>({
    // Every commit of the controller's store and of the worker's journal.
    "store.commit.before",
    "store.commit.after",

    "control.create.before_commit",
    "control.create.committed",  // The deliverer was not woken yet.
    "control.order.before_send",
    "control.order.sent",
    "control.order.answered",
    "control.settle.before_commit",
    "control.settle.committed",  // The caller was not told yet.
    "control.delete.committed",
    "control.renew.committed",
    "control.inventory.settled",
    "control.heartbeat.settled",

    "work.order.received",
    "work.create.journaled",
    "work.create.made",     // The sandbox runs; the journal says `creating`.
    "work.create.running",  // The journal says so; the order was not answered.
    "work.remove.journaled",
    "work.remove.removed",
    "work.remove.ended",
    "work.renew.journaled",
    "work.expiry.begun",
    "work.adopt.undone",  // What a restart found half made is gone; the journal knows of it.

    "docker.wall.made",
    "docker.sidecar.made",
    "docker.sidecar.joined",
    "docker.sidecar.started",
    "docker.sidecar.serves",
    "docker.sandbox.made",
    "docker.sandbox.started",
    "docker.guest.connected",
    "docker.remove.sandbox_gone",
    "docker.remove.containers_gone",
    "docker.remove.wall_gone",
});

namespace detail {

/// Not constexpr, so that a call of it is no constant: the compiler's error names it.
void no_such_fault_point();

consteval std::size_t fault_point(std::string_view name) {
  for (std::size_t i = 0; i < kFaultPoints.size(); ++i) {
    if (kFaultPoints[i] == name) {
      return i;
    }
  }
  no_such_fault_point();
  return kFaultPoints.size();
}

/// Does not return when the environment names this pass of this point. Thread-safety: any thread.
void pass_fault_point(std::size_t point);

}  // namespace detail
}  // namespace sandboxkit

#if defined(SANDBOXKIT_FAULT_POINTS)
#define SANDBOXKIT_FAULT_POINT(name) \
  ::sandboxkit::detail::pass_fault_point(::sandboxkit::detail::fault_point(name))
#else
#define SANDBOXKIT_FAULT_POINT(name) static_cast<void>(::sandboxkit::detail::fault_point(name))
#endif
