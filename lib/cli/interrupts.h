#pragma once

#include <functional>
#include <memory>

namespace sandboxkit::cli {

/// Signals, heard by a thread of their own. On SIGINT, SIGTERM or SIGHUP the current clean-up runs
/// once and the process ends with 128 + the signal's number; a second one ends it at once.
///
/// Make it before any other thread: the signals are blocked in all of them.
/// Thread-safety: any thread.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// What is to be undone from now on, in place of what was said before.
  void on_end(std::function<void()> cleanup);
  /// Called for each change of the terminal's size.
  void on_resize(std::function<void()> resized);
  /// Does not return when a clean-up is under way: the process ends after it.
  void hold_while_ending();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the thread, which may be in a clean-up at the end.
};

}  // namespace sandboxkit::cli
