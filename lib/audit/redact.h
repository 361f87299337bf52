#pragma once

#include "audit/key.h"

#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::audit {

/// The words of a command, with what looks like a credential replaced by `[redacted:<12 hex>]`.
///
/// Found are: what follows an option, variable, header or member whose name speaks of a password,
/// secret, token, key or cookie; the user information of a URL and of `-u`; texts that begin like a
/// known kind of token. Rather too much goes than too little. The hex is a keyed hash, so that who
/// has the key can follow a credential through the log, and nobody else can guess it. A credential
/// that looks like any other word is not found.
std::vector<std::string> redact_argv(const std::vector<std::string>& argv, const Key& salt);
/// The same for a command as one text; what stands between its words stays.
std::string redact_text(std::string_view text, const Key& salt);

}  // namespace sandboxkit::audit
