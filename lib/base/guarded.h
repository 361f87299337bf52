#pragma once

#include <mutex>
#include <utility>

namespace sandboxkit {

/// A value that can only be touched while its lock is held.
/// Never call out (a callback, I/O) from inside of `with`.
template <typename T>
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(T value) : value_(std::move(value)) {}

  template <typename F>
  decltype(auto) with(F&& body) {
    const std::lock_guard lock(mutex_);
    return std::forward<F>(body)(value_);
  }
  template <typename F>
  decltype(auto) with(F&& body) const {
    const std::lock_guard lock(mutex_);
    return std::forward<F>(body)(value_);
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace sandboxkit
