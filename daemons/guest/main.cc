#include "sandboxkit/version.h"

#include "guest/daemon.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int kExitUsage = 2;

int usage() {
  std::fputs(
      "usage: sandboxkit-guest [--socket PATH [--proxy-listener ADDRESS:PORT] | --serve-fd N |"
      " --link-fd N] [--version]\n",
      stderr);
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  sandboxkit::guest::DaemonOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--version") {
      std::printf("sandboxkit-guest %s\n", sandboxkit::version());
      return EXIT_SUCCESS;
    }
    if (i + 1 == argc) {
      return usage();
    }
    const char* value = argv[++i];
    if (name == "--socket") {
      options.socket_path = value;
    } else if (name == "--proxy-listener") {
      options.proxy_listener = value;
    } else if (name == "--serve-fd" || name == "--link-fd") {
      char* end = nullptr;
      const long fd = std::strtol(value, &end, 10);
      if (end == value || *end != '\0' || fd < 0 || fd > 1 << 20) {
        return usage();
      }
      (name == "--serve-fd" ? options.serve_fd : options.link_fd) = static_cast<int>(fd);
    } else {
      return usage();
    }
  }
  return sandboxkit::guest::run_daemon(options);
}
