#pragma once

#include "sandboxkit/result.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace sandboxkit::docker {

/// Things of the engine that are made before somebody needs one, because they take long to make.
/// Each is used once: what was taken never comes back.
///
/// A thread fills the pool one at a time, not while a create is under way unless that takes long,
/// and waits longer after each failure. What a dead worker left is removed at the start.
/// Thread-safety: any thread.
class ReadyPool {
 public:
  static constexpr std::size_t kMaxReady = 64;

  /// Called on the pool's thread, but `remove_left_over` also by `clear_left_over`.
  struct Maker {
    /// Makes one and returns its name.
    std::function<Result<std::string>(std::stop_token)> make;
    /// Removes one. What fails is found by its labels later.
    std::function<void(const std::string&)> remove;
    /// Removes what a dead worker left.
    std::function<void()> remove_left_over;
  };

  ReadyPool(Maker maker, std::size_t size);
  /// Removes what waits.
  ~ReadyPool();
  ReadyPool(const ReadyPool&) = delete;
  ReadyPool& operator=(const ReadyPool&) = delete;

  /// Begins to fill it. Again: nothing.
  void fill();
  /// Removes what a dead worker left; does nothing once this pool fills.
  void clear_left_over();
  /// One that nobody else gets; nullopt when none waits. Never blocks.
  std::optional<std::string> take();
  /// Removes one that was taken, soon.
  void discard(std::string name);
  /// Removes all that wait: the engine may have lost them.
  void discard_all();

  /// While one of these lives, a create is under way.
  class Create {
   public:
    explicit Create(ReadyPool& pool) : pool_(pool) { ++pool_.creates_; }
    ~Create();
    Create(const Create&) = delete;
    Create& operator=(const Create&) = delete;

   private:
    ReadyPool& pool_;
  };

 private:
  void run(const std::stop_token& stop);
  bool wait(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);

  const Maker maker_;
  const std::size_t size_;
  std::atomic<int> creates_{0};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::string> waiting_;
  std::vector<std::string> discarded_;
  std::jthread thread_;  // Last: it uses all of the above.
};

}  // namespace sandboxkit::docker
