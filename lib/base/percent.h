#pragma once

#include <string>
#include <string_view>

namespace sandboxkit {

/// Every byte but RFC 3986's unreserved characters as `%XX`.
std::string percent_encoded(std::string_view text);

}  // namespace sandboxkit
