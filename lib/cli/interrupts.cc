#include "cli/interrupts.h"

#include "base/guarded.h"
#include "cli/exit_code.h"

#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

/// Wakes our own thread when it is to end.
constexpr int kWake = SIGUSR2;

sigset_t heard_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, kWake}) {
    sigaddset(&set, number);
  }
  return set;
}

}  // namespace

struct Interrupts::Impl {
  struct Handlers {
    std::function<void()> cleanup{};
    std::function<void()> resized{};
    bool stop = false;
    bool ending = false;
  };
  Guarded<Handlers> handlers;
  std::thread thread;

  void listen(const std::shared_ptr<Impl>& self) {
    const sigset_t signals = heard_signals();
    while (true) {
      int number = 0;
      if (sigwait(&signals, &number) != 0) {
        continue;
      }
      const bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
      // As it was before: the first of the ending signals starts the clean-up.
      const Handlers now = handlers.with([&](Handlers& h) {
        Handlers before = h;
        h.ending = h.ending || ends;
        return before;
      });
      if (number == kWake) {
        if (now.stop) {
          return;
        }
      } else if (number == SIGWINCH) {
        if (now.resized) {
          now.resized();
        }
      } else if (now.ending || !now.cleanup) {
        _exit(kExitSignalBase + number);
      } else {
        // In a thread of its own, so that a second signal is still heard.
        std::thread([self, cleanup = now.cleanup, number] {
          cleanup();
          _exit(kExitSignalBase + number);
        }).detach();
      }
    }
  }
};

Interrupts::Interrupts() : impl_(std::make_shared<Impl>()) {
  const sigset_t signals = heard_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A reader that goes away is an error of write(2), so that what we made is still removed.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  impl_->thread = std::thread([self = impl_] { self->listen(self); });
}

Interrupts::~Interrupts() {
  hold_while_ending();
  impl_->handlers.with([](Impl::Handlers& h) { h.stop = true; });
  pthread_kill(impl_->thread.native_handle(), kWake);
  impl_->thread.join();
}

void Interrupts::hold_while_ending() {
  while (impl_->handlers.with([](const Impl::Handlers& h) { return h.ending; })) {
    pause();
  }
}

void Interrupts::on_end(std::function<void()> cleanup) {
  impl_->handlers.with([&](Impl::Handlers& h) { h.cleanup = std::move(cleanup); });
}

void Interrupts::on_resize(std::function<void()> resized) {
  impl_->handlers.with([&](Impl::Handlers& h) { h.resized = std::move(resized); });
}

}  // namespace sandboxkit::cli
