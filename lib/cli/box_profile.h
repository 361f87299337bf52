#pragma once

#include "sandboxkit/gate_policy.h"
#include "sandboxkit/result.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::cli {

/// What one program needs of the host when it runs in a box.
struct BoxProfile {
  /// `claude`; of a file its name without `.json`.
  std::string name{};
  std::vector<std::string> domains{};
  /// The host's variables that pass by name: keys of the program's own service.
  std::vector<std::string> variables{};
  std::map<std::string, std::string> environment{};
  /// Files of the home, `~/...`, that are copied into the box's home when it is made.
  std::vector<std::string> seeds{};
  /// Folders, `~/...` or absolute, where the program lies. One that is not there is passed over.
  std::vector<GateRoot> places{};
  bool allow_nested = false;
};

/// Reads `{"version": 1, "domains": [], "variables": [], "environment": {}, "seeds": [], "places":
/// [{"path", "access"}], "allow_nested": false}`; only `version` is required.
/// Limits: 64 KiB, 256 entries a list. Errors: kInvalidArgument or kTooLarge with the field's path.
Result<BoxProfile> parse_box_profile(std::string_view json);

/// A name is looked up in `~/.config/sandboxkit/profiles` and where profiles are installed; what
/// has a `/` or ends with `.json` is a file. Errors: kNotFound, with the names that there are.
Result<BoxProfile> load_box_profile(const std::string& name);

}  // namespace sandboxkit::cli
