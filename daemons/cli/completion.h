#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sandboxkit::cli {

/// A bash script that completes commands, options and the names of sandboxes.
std::string bash_completion(const CLI::App& app);

}  // namespace sandboxkit::cli
