#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <string>

namespace sandboxkit::guest {

/// The whole of a small regular file (procfs included). Never blocks on a FIFO or a device.
/// Errors: as `file_error`; kTooLarge past `max_bytes`.
Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes);

/// What a failed call on a path means to the caller: reason and code for every errno that a file
/// system gives, `path` as the field.
Error file_error(int error_number, const std::string& path);

}  // namespace sandboxkit::guest
