#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace sandboxkit {

/// A queue between threads that refuses instead of growing.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : limit_(limit) {}

  /// False when the queue is full or closed; the item is untouched then.
  bool try_push(T&& item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= limit_) {
        return false;
      }
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Waits for an item; nullopt once the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      return std::nullopt;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  /// Closes it and drops what nobody took yet.
  void close_and_drop() {
    std::deque<T> dropped;  // Destroyed after the lock: items may do anything then.
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      dropped.swap(items_);
    }
    ready_.notify_all();
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace sandboxkit
