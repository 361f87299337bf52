#pragma once

#include "docker/engine_client.h"
#include "docker/labels.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace sandboxkit::docker {

/// The body that creates a holder. Pure.
json::Value holder_body(const Owner& owner, const std::string& image);

/// Containers without a network that wait, each to lend its network namespace to one sandbox: the
/// engine takes most of a start's time to make one. A holder is used once and removed as soon as
/// the sandbox runs in its namespace; the engine then lets nobody connect that namespace to a
/// network any more.
///
/// A thread fills the pool one holder at a time, not while a create is under way unless that takes
/// long, and waits longer after each failure. What a dead worker left is removed at the start.
/// Thread-safety: any thread.
class HolderPool {
 public:
  static constexpr std::size_t kMaxHolders = 64;

  HolderPool(EngineClient& engine, Owner owner, std::size_t size);
  /// Removes what waits.
  ~HolderPool();
  HolderPool(const HolderPool&) = delete;
  HolderPool& operator=(const HolderPool&) = delete;

  /// Begins to fill it with containers of that image. Again: nothing.
  void fill(const std::string& image);
  /// Removes what a dead worker left; does nothing once this pool fills.
  void clear_left_over();
  /// A holder that nobody else gets; nullopt when none waits. Never blocks.
  std::optional<std::string> take();
  /// Removes a holder that was taken, soon.
  void discard(std::string holder);
  /// Removes all that wait: the engine may have lost them.
  void discard_all();

  /// While one of these lives, a create is under way.
  class Create {
   public:
    explicit Create(HolderPool& pool) : pool_(pool) { ++pool_.creates_; }
    ~Create();
    Create(const Create&) = delete;
    Create& operator=(const Create&) = delete;

   private:
    HolderPool& pool_;
  };

 private:
  void run(const std::stop_token& stop);
  void remove_all_found();
  Result<std::string> make();
  void remove(const std::string& holder);
  bool wait(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);

  EngineClient& engine_;
  const Owner owner_;
  const std::size_t size_;
  std::atomic<int> creates_{0};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string image_;
  std::deque<std::string> waiting_;
  std::vector<std::string> discarded_;
  std::jthread thread_;  // Last: it uses all of the above.
};

}  // namespace sandboxkit::docker
