#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit::egress {

enum class AddressKind : std::uint8_t { kV4, kV6 };

/// What a status of c-ares means; `name` is for the words.
Error dns_error(int status, const std::string& name);

/// The addresses of one kind in a name server's message, the first `Resolver::kMaxAnswers` of them.
/// An IPv4-mapped address is the IPv4 address that it means. Pure.
/// Errors: kNotFound when there is none, kUnavailable when it cannot be read.
Result<std::vector<IpAddress>> addresses_in(std::span<const unsigned char> message,
                                            AddressKind kind, const std::string& name);

}  // namespace sandboxkit::egress
