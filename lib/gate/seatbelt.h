#pragma once

#include "sandboxkit/box_plan.h"

#include <cstdint>
#include <string>

namespace sandboxkit::gate {

struct SeatbeltInput {
  const BoxPlan& plan;
  /// The port on the loopback where the proxy of the plan's egress listens; 0: nothing is dialled.
  std::uint16_t proxy_port = 0;
};

/// The plan as a profile for `/usr/bin/sandbox-exec`, whose last matching rule wins.
///
/// A profile knows names only, so it also enforces the plan's name rules at once. It cannot give
/// places of its own: what a plan leaves to the box (home, `/tmp`) is not there, and hard links
/// cannot be made. Letters of name rules that are no ASCII match any character.
/// Errors: kInvalidArgument for a staged plan, which a profile cannot hold, and for a path with a
/// NUL. Source: design of the permission gate, 4.8.
Result<std::string> seatbelt_profile(const SeatbeltInput& input);

/// A string of a profile, whatever its letters are.
std::string seatbelt_string(const std::string& text);

}  // namespace sandboxkit::gate
