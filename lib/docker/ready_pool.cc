#include "docker/ready_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1'000};
constexpr milliseconds kLongestPause{60'000};
/// A refill lets creates go first for this long.
constexpr milliseconds kYield{2'000};

}  // namespace

ReadyPool::ReadyPool(Maker maker, std::size_t size)
    : maker_(std::move(maker)), size_(std::min(size, kMaxReady)) {}

ReadyPool::~ReadyPool() {
  if (!thread_.joinable()) {
    return;
  }
  thread_.request_stop();
  thread_.join();
  discard_all();
  for (const std::string& name : discarded_) {
    maker_.remove(name);
  }
}

void ReadyPool::fill() {
  const std::lock_guard lock(mutex_);
  if (size_ == 0 || thread_.joinable()) {
    return;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::optional<std::string> ReadyPool::take() {
  std::optional<std::string> name;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      return std::nullopt;
    }
    name = std::move(waiting_.front());
    waiting_.pop_front();
  }
  changed_.notify_all();
  return name;
}

void ReadyPool::discard(std::string name) {
  {
    const std::lock_guard lock(mutex_);
    discarded_.push_back(std::move(name));
  }
  changed_.notify_all();
}

void ReadyPool::discard_all() {
  {
    const std::lock_guard lock(mutex_);
    discarded_.insert(discarded_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  changed_.notify_all();
}

ReadyPool::Create::~Create() {
  --pool_.creates_;
  pool_.changed_.notify_all();
}

/// True when there is a place to fill; false when only removals are due or the end is asked for.
bool ReadyPool::wait(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  changed_.wait(lock, stop, [&] { return !discarded_.empty() || waiting_.size() < size_; });
  if (stop.stop_requested() || !discarded_.empty()) {
    return false;
  }
  changed_.wait_for(lock, stop, kYield, [&] { return creates_ == 0 || !discarded_.empty(); });
  return !stop.stop_requested() && discarded_.empty();
}

void ReadyPool::run(const std::stop_token& stop) {
  maker_.remove_left_over();
  milliseconds pause = kFirstPause;
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    const bool room = wait(lock, stop);
    const std::vector<std::string> gone = std::exchange(discarded_, {});
    lock.unlock();
    for (const std::string& name : gone) {
      maker_.remove(name);
    }
    if (!room) {
      continue;
    }
    auto made = maker_.make(stop);
    lock.lock();
    if (made) {
      waiting_.push_back(std::move(*made));
      pause = kFirstPause;
      continue;
    }
    changed_.wait_for(lock, stop, pause, [] { return false; });
    pause = std::min(pause * 2, kLongestPause);
  }
}

void ReadyPool::clear_left_over() {
  {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) {
      return;
    }
  }
  maker_.remove_left_over();
}

}  // namespace sandboxkit::docker
