#pragma once

#include "sandboxkit/result.h"

#include "io/fd.h"
#include "wire/http.h"

#include <chrono>
#include <string>

namespace sandboxkit::docker {

struct HelperRequest {
  std::string path;
  std::string json_body{};      ///< Empty: a GET.
  std::string method = "POST";  ///< Of a request with a body.
};

struct HelperReply {
  int status = 0;
  wire::Headers headers{};
  std::string body{};
};

/// One request over a connection to a helper, which is closed afterwards; whole answer of at most
/// 4 MiB. The helper is read as strictly as any other peer.
/// Errors: kDeadlineExceeded, kUnavailable `guest_unavailable`, kTooLarge, or the bad answer's.
Result<HelperReply> call_helper(io::Fd connection, const HelperRequest& request,
                                std::chrono::milliseconds timeout);

}  // namespace sandboxkit::docker
