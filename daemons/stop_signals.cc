#include "daemons/stop_signals.h"

#include <cstdlib>
#include <utility>

#include <pthread.h>

namespace sandboxkit::daemons {
namespace {

/// Ours: wakes the thread that waits, once nothing is left to stop.
constexpr int kWake = SIGUSR1;
constexpr int kSignalled = 128;

}  // namespace

sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, kWake);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

StopWatch::StopWatch(const sigset_t& signals, std::function<void()> stop)
    : thread_([signals, stop = std::move(stop)] {
        bool asked = false;
        int received = 0;
        while (sigwait(&signals, &received) == 0 && received != kWake) {
          if (asked) {
            std::_Exit(kSignalled + received);
          }
          asked = true;
          stop();
        }
      }) {}

StopWatch::~StopWatch() {
  pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
}

}  // namespace sandboxkit::daemons
