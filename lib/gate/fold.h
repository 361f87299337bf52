#pragma once

#include <string>
#include <string_view>

namespace sandboxkit::gate {

/// A name as denials compare it: compatibility forms, case, combining marks and ignored characters
/// make no difference. It never makes two names differ that a file system takes for one; bytes
/// that are no UTF-8 stay as they are. Never for what allows.
std::string fold(std::string_view name);

}  // namespace sandboxkit::gate
