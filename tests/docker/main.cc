// Tests against a real engine: `driver_test <stub> <guest> <egress> [doctest options]`.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/docker/house.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

namespace {
constexpr int kSkip = 77;
constexpr int kFixedArguments = 4;
}  // namespace

int main(int argc, char** argv) {
  if (argc < kFixedArguments) {
    std::fputs("usage: driver_test STUB GUEST EGRESS [doctest options]\n", stderr);
    return 2;
  }
  auto& programs = sandboxkit::test::programs();
  const auto if_there = [](const char* path) {
    return access(path, X_OK) == 0 ? std::string(path) : std::string();
  };
  programs.stub = argv[1];
  programs.guest = if_there(argv[2]);
  programs.egress = if_there(argv[3]);
  const char* socket = std::getenv("SANDBOXKIT_ENGINE_SOCKET");
  programs.engine_socket = socket != nullptr ? socket : "/var/run/docker.sock";
  const auto engine = sandboxkit::docker::EngineClient::connect(programs.engine_socket,
                                                                std::chrono::milliseconds(5000));
  if (!engine) {
    const char* must = std::getenv("SANDBOXKIT_MUST_RUN");
    std::fprintf(stderr, "no engine: %s\n", engine.error().message.c_str());
    return must != nullptr && std::string(must).find("docker") != std::string::npos ? 1 : kSkip;
  }
  doctest::Context context(argc - kFixedArguments + 1, argv + kFixedArguments - 1);
  return context.run();
}
