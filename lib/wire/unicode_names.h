#pragma once

#include "sandboxkit/result.h"

#include "json/value.h"

#include <string>
#include <string_view>

namespace sandboxkit::wire {

/// Writes an entry of an allow-list in ASCII: `bücher.example` becomes `xn--bcher-kva.example`.
/// Only what an owner writes comes here; a request's bytes are never mapped. Letters are taken as
/// IDNA2008 has them and are not folded to others: a wide, ligated or upper-case letter is an error
/// whose message names the spelling to write. An entry in ASCII is returned as it is.
/// Errors: kInvalidArgument.
Result<std::string> ascii_entry(std::string_view entry);

/// `egress` (an object of the API, or anything else, which is returned as it is) with each
/// `allowed_domains` entry in ASCII. Errors: as above, `field` being `path.allowed_domains[i]`.
Result<json::Value> with_ascii_domains(const json::Value& egress, const std::string& path);

/// A body that has such an object as its member `egress`.
Result<json::Value> with_ascii_egress(const json::Value& body);

}  // namespace sandboxkit::wire
