#pragma once

#include "sandboxkit/result.h"

#include <chrono>
#include <string>

namespace sandboxkit::work {

struct PostReply {
  int status = 0;
  std::string body;
};

/// One call to the controller: `url` is `http://host:port`, the credential goes into
/// `Authorization: Bearer`, the body is JSON. Answers above 1 MiB are an error.
///
/// Errors: kInvalidArgument for the url; kUnavailable; kDeadlineExceeded.
/// Blocking: up to `timeout`, and the time of a name's look-up.
Result<PostReply> post(const std::string& url, const std::string& path,
                       const std::string& credential, const std::string& body,
                       std::chrono::milliseconds timeout);

/// The reply's body when its status is 2xx, else the controller's refusal as an Error.
Result<std::string> body_or_error(const PostReply& reply);

}  // namespace sandboxkit::work
