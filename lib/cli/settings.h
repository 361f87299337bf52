#pragma once

#include "sandboxkit/client.h"
#include "sandboxkit/result.h"

#include <map>
#include <string>

namespace sandboxkit::cli {

/// Where the controller is and who asks: what flags, environment and file may say.
struct Connection {
  std::string url{};
  std::string key{};
};

/// The environment, taken once, so that a test can give its own.
using Environment = std::map<std::string, std::string>;
Environment process_environment();

/// `$XDG_CONFIG_HOME/sandboxkit/config.json`, or under `~/.config`; "" without a home.
std::string settings_path(const Environment& environment);

/// Flags before environment before file. The file must be the user's own and closed for others.
/// Errors: kInvalidArgument when no controller is named or the file is bad; kUnauthenticated when
/// no key is given.
Result<ClientConfig> connection_settings(const Connection& flags, const Environment& environment);

/// Writes the settings file, mode 0600, in place of an older one.
Status save_settings(const Connection& connection, const std::string& path);

}  // namespace sandboxkit::cli
