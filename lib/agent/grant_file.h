#pragma once

#include "sandboxkit/gate_files.h"
#include "sandboxkit/result.h"

#include "audit/key.h"

#include <string>
#include <string_view>

namespace sandboxkit::agent {

/// The bytes of `grants.json`: one JSON object, whose last member is the MAC over all that is
/// before it, and a line feed.
std::string sign_grants(const KeptGrants& grants, const audit::Key& key);

/// Errors: `grants_ignored`, field `mac` or `json`. Nothing of a text is looked at before its MAC
/// holds.
Result<KeptGrants> open_grants(std::string_view text, const audit::Key& key);

/// Why a file of grants does not count. `what` is one of `GrantsView::problem`'s fields.
Error grants_ignored(const char* what, const std::string& why);

}  // namespace sandboxkit::agent
