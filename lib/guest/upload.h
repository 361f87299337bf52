#pragma once

#include "guest/users.h"
#include "io/http_server.h"

#include <memory>
#include <optional>
#include <string>

namespace sandboxkit::guest {

struct UploadTarget {
  std::optional<std::string> path;  ///< Empty: each part's file name is its path.
  User user;
  bool change_owner;
  std::string workdir;  ///< Where relative file names start.
};

/// Takes a file from the request's body (application/octet-stream), or each part named `file` of
/// multipart/form-data, and answers with `[{"path","name","type":"file"}]`. A part of a body that
/// does not come whole replaces nothing. Source: design of the E2B surface, 4.5.
void serve_upload(const std::shared_ptr<io::HttpExchange>& exchange, UploadTarget target);

}  // namespace sandboxkit::guest
