#pragma once

#include <string>
#include <vector>

namespace sandboxkit::cli {

/// Reads the arguments (without the program's name), does what they say, returns the exit code.
int run_with_arguments(std::vector<std::string> arguments);

}  // namespace sandboxkit::cli
