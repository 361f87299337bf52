#include "daemons/controller/options.h"
#include "daemons/log_sink.h"
#include "daemons/stop_signals.h"

#include <cstdio>
#include <cstdlib>

namespace {

int fail(const sandboxkit::Error& error) {
  std::fprintf(stderr, "sandboxkit-controller: %s\n", error.message.c_str());
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = EXIT_SUCCESS;
  const auto options = sandboxkit::daemons::read_controller_options(argc, argv, exit_code);
  if (!options) return exit_code;
  const sigset_t signals = sandboxkit::daemons::block_stop_signals();
  sandboxkit::daemons::LogSink log(options->log_level, options->log_json);
  auto controller =
      sandboxkit::Controller::create(options->config, sandboxkit::system_clock(), log);
  if (!controller) return fail(controller.error());
  if (!options->port_file.empty()) {
    const auto written =
        sandboxkit::daemons::write_port_file(options->port_file, (*controller)->port());
    if (!written) return fail(written.error());
  }
  const sandboxkit::daemons::StopWatch watch(signals, [&] { (*controller)->stop(); });
  const auto status = (*controller)->run();
  return status ? EXIT_SUCCESS : fail(status.error());
}
