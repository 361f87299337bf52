#pragma once

#include "sandboxkit/gate_request.h"
#include "sandboxkit/result.h"

#include "wire/http.h"

#include <cstddef>
#include <string>

namespace sandboxkit::local {

/// Of a call whose body has to be read before it is known what it does. Source: the guest's own.
inline constexpr std::size_t kMaxJudgedBytes = 4 << 20;

/// What a call to the guest of a box does to the machine.
struct GuestCall {
  /// Without items there is nothing to judge: the call reaches nothing but the box's own.
  GateRequest request{};
  /// What the guest shall see; paths in it are as they were judged.
  std::string target{};
};

/// Where a caller's relative paths begin: in the work tree, and `~` is the box's home.
struct GuestPlaces {
  std::string tree;
  std::string home;
};

/// Whether the body says what the call does.
bool needs_body(const wire::RequestHead& head);

/// Reads a call as the guest will; what the guest would refuse may pass, what it would do has to
/// stand in the request. `body` is empty where `needs_body` says no. Pure.
///
/// Errors: kInvalidArgument for what cannot be read, and for an upload without a `path`, whose
/// names would come too late to be judged; kNotFound `route_not_found` for any other route.
Result<GuestCall> read_guest_call(const wire::RequestHead& head, const std::string& body,
                                  const GuestPlaces& places);

}  // namespace sandboxkit::local
