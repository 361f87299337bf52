#include "daemons/log_sink.h"
#include "daemons/option_limits.h"
#include "daemons/stop_signals.h"
#include "daemons/worker/options.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

int fail(const sandboxkit::Error& error) {
  std::fprintf(stderr, "sandboxkit-worker: %s%s%s\n", error.field.c_str(),
               error.field.empty() ? "" : ": ", error.message.c_str());
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = EXIT_SUCCESS;
  const auto options = sandboxkit::daemons::read_worker_options(argc, argv, exit_code);
  if (!options) return exit_code;
  sandboxkit::daemons::raise_descriptor_limit();
  const sigset_t signals = sandboxkit::daemons::block_stop_signals();
  sandboxkit::daemons::LogSink log(options->log_level, options->log_json);
  const auto identity =
      sandboxkit::join_or_load(options->config, options->join_token, options->name);
  if (!identity) return fail(identity.error());
  auto driver = sandboxkit::daemons::make_driver(*options, *identity);
  if (!driver) return fail(driver.error());
  auto worker = sandboxkit::Worker::create(options->config, *identity, std::move(*driver),
                                           sandboxkit::system_clock(), log);
  if (!worker) return fail(worker.error());
  const sandboxkit::daemons::StopWatch watch(signals, [&] { (*worker)->stop(); });
  const auto status = (*worker)->run();
  return status ? EXIT_SUCCESS : fail(status.error());
}
