#pragma once

#include <string>

namespace sandboxkit::config {

/// Something wrong with the configuration. All of them are told at once: a person who mends a file
/// must not meet them one start at a time.
struct Problem {
  /// `FILE:LINE`, `--flag` or `env NAME`; empty where it concerns no single place.
  std::string where;
  /// Lower case, no full stop, no secret.
  std::string message;
};

}  // namespace sandboxkit::config
