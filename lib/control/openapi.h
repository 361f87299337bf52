#pragma once

#include <string_view>

namespace sandboxkit::control {

/// docs/openapi.json as it stood when this was built.
std::string_view openapi_document();

}  // namespace sandboxkit::control
