#pragma once

#include "sandboxkit/ids.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <utility>

namespace sandboxkit::docker {

/// One operation at a time on one sandbox, any number side by side on different ones. A removal
/// ends a create that is under way.
/// Thread-safety: any thread.
class Operations {
 public:
  /// Holds the sandbox until it is destroyed.
  class Turn {
   public:
    Turn(Operations& all, SandboxId sandbox, std::stop_source stop)
        : all_(&all), sandbox_(std::move(sandbox)), stop_(std::move(stop)) {}
    Turn(Turn&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)),
          sandbox_(other.sandbox_),
          stop_(std::move(other.stop_)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (all_ != nullptr) {
        all_->finish(sandbox_);
      }
    }
    /// Set when somebody wants to remove the sandbox meanwhile.
    const std::stop_source& stop() const { return stop_; }

   private:
    Operations* all_;
    SandboxId sandbox_;
    std::stop_source stop_;
  };

  /// Waits for its turn. `preempt` asks the operation that is under way to stop.
  Turn begin(const SandboxId& sandbox, bool preempt) {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto busy = busy_.find(sandbox);
      if (busy == busy_.end()) {
        break;
      }
      if (preempt) {
        busy->second.request_stop();
      }
      finished_.wait(lock);
    }
    std::stop_source stop;
    busy_.emplace(sandbox, stop);
    return Turn(*this, sandbox, std::move(stop));
  }

  bool is_busy(const SandboxId& sandbox) const {
    const std::lock_guard lock(mutex_);
    return busy_.contains(sandbox);
  }

 private:
  void finish(const SandboxId& sandbox) {
    {
      const std::lock_guard lock(mutex_);
      busy_.erase(sandbox);
    }
    finished_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::map<SandboxId, std::stop_source> busy_;
};

}  // namespace sandboxkit::docker
