#include "daemons/cli/options.h"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  try {
    return sandboxkit::cli::run_with_arguments(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "sandboxkit: %s\n", problem.what());
    return EXIT_FAILURE;
  }
}
