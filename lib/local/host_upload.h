#pragma once

#include "io/fd.h"
#include "io/http_server.h"

#include <memory>
#include <string>

namespace sandboxkit::local {

/// Takes a file from a request's body (as it is, or the one part `file` of multipart/form-data)
/// into a descriptor that was judged and is empty, and answers as a guest does. A file outside of
/// the box is written in place: nothing beside it may be made, so one that is cut stays cut, and
/// the caller is told. Thread-safety: the loop's thread.
void serve_host_upload(const std::shared_ptr<io::HttpExchange>& exchange, io::Fd file,
                       const std::string& path);

}  // namespace sandboxkit::local
