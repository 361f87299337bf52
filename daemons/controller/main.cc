#include "daemons/controller/options.h"
#include "daemons/log_sink.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include <pthread.h>
#include <signal.h>

namespace {

int fail(const sandboxkit::Error& error) {
  std::fprintf(stderr, "sandboxkit-controller: %s\n", error.message.c_str());
  return EXIT_FAILURE;
}

/// Before any thread starts, so that all inherit the mask and one thread takes the signals.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);  // Ours: the end of `run` wakes the thread that waits.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = EXIT_SUCCESS;
  const auto options = sandboxkit::daemons::read_controller_options(argc, argv, exit_code);
  if (!options) return exit_code;
  const sigset_t signals = block_stop_signals();
  sandboxkit::daemons::LogSink log(options->log_level, options->log_json);
  auto controller =
      sandboxkit::Controller::create(options->config, sandboxkit::system_clock(), log);
  if (!controller) return fail(controller.error());
  if (!options->port_file.empty()) {
    const auto written =
        sandboxkit::daemons::write_port_file(options->port_file, (*controller)->port());
    if (!written) return fail(written.error());
  }
  std::jthread stopper([&] {
    int received = 0;
    sigwait(&signals, &received);
    if (received != SIGUSR1) {
      (*controller)->stop();
    }
  });
  const auto status = (*controller)->run();
  pthread_kill(stopper.native_handle(), SIGUSR1);
  return status ? EXIT_SUCCESS : fail(status.error());
}
