#pragma once

#include "sandboxkit/result.h"

#include "io/http_server.h"
#include "json/value.h"
#include "wire/http.h"

#include <string>
#include <string_view>

namespace sandboxkit::guest {

/// Answers with the error's status and body; a full disk is 507, a request that we do not speak
/// 501.
void refuse(io::HttpExchange& exchange, const Error& error);

/// The name before the colon of `Authorization: Basic`; empty without one.
/// Source: design of the E2B surface, 4.1.
std::string basic_user(const wire::Headers& headers);

/// The error for what the guest knows about but does not do.
Error unimplemented(std::string message);
bool is_unimplemented(const Error& error);

}  // namespace sandboxkit::guest
