#pragma once

#include "sandboxkit/clock.h"

#include <optional>
#include <string>

namespace sandboxkit::store {

/// A secret that is lent to a sandbox. It goes when the sandbox ends.
struct SecretRow {
  std::string sandbox;
  std::string name;
  std::string domain;
  std::string place;  ///< name_of(SecretPlace).
  std::string key{};
  std::string sealed;  ///< Its value: store/secrets_key.h. Never in the clear.
  std::optional<WallTime> expires{};
};

}  // namespace sandboxkit::store
