#pragma once

#include "io/fd.h"
#include "io/http_server.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace sandboxkit::local {

struct RelayedCall {
  std::shared_ptr<io::HttpExchange> exchange;  // Shared with its connection.
  /// What the guest sees.
  std::string target;
  /// The body, where it was read already; else it is passed on as it comes.
  std::optional<std::string> body{};
};

/// Passes one call to a guest over `connection` and its answer back, with back-pressure both ways.
/// A CONNECT becomes a pipe. Neither credentials nor the caller's choice of an account go along: a
/// box has one account. Thread-safety: the loop's thread.
void relay_call(io::EventLoop& loop, io::Fd connection, RelayedCall call);

}  // namespace sandboxkit::local
