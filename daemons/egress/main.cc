#include "sandboxkit/version.h"

#include "egress/host_process.h"
#include "egress/sidecar.h"
#include "egress/wall_probe.h"

#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

constexpr const char* kUsage =
    "usage: sandboxkit-egress [--config-dir DIR]       serve the policy in DIR/policy.json\n"
    "       sandboxkit-egress --await-policy [DIR]     the same, once that file is there\n"
    "       sandboxkit-egress --listener-fd N --control-fd N --config-dir DIR [--same-user]\n"
    "                                                  the same on a host, by hand of its parent\n"
    "       sandboxkit-egress --probe-wall HOST:PORT... print what can be reached from here\n"
    "       sandboxkit-egress --hold                   wait for SIGTERM\n"
    "       sandboxkit-egress --version\n";

int usage_error() {
  std::fputs(kUsage, stderr);
  return sandboxkit::egress::kExitConfig;
}

}  // namespace

int main(int argc, char** argv) {
  namespace egress = sandboxkit::egress;
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode.empty()) {
    return egress::run_sidecar(egress::kDefaultConfigDir);
  }
  if (mode == "--config-dir" && argc == 3) {
    return egress::run_sidecar(argv[2]);
  }
  if (mode == "--await-policy" && argc <= 3) {
    return egress::run_sidecar(argc == 3 ? argv[2] : egress::kDefaultConfigDir, true);
  }
  if (mode == "--listener-fd") {
    const auto process = egress::read_host_process({argv + 1, argv + argc});
    return process ? egress::run_host_process(*process) : usage_error();
  }
  if (mode == "--probe-wall") {
    return egress::run_wall_probe({argv + 2, argv + argc});
  }
  if (mode == "--hold" && argc == 2) {
    return egress::run_holder();
  }
  if (mode == "--version" && argc == 2) {
    std::printf("sandboxkit-egress %s\n", sandboxkit::version());
    return 0;
  }
  if (mode == "--help" && argc == 2) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  return usage_error();
}
