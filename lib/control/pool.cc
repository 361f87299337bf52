#include "control/pool.h"

#include <utility>

namespace sandboxkit::control {

Pool::Pool(std::size_t threads, std::size_t queue_limit) : queue_(queue_limit) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      while (auto work = queue_.pop()) {
        (*work)();
      }
    });
  }
}

Pool::~Pool() { stop(); }

bool Pool::post(std::function<void()> work) { return queue_.try_push(std::move(work)); }

void Pool::stop() {
  queue_.close();
  threads_.clear();
}

}  // namespace sandboxkit::control
