#include "docker/event_watcher.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxEventBytes = 1 << 20;
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{3000};

/// Waits, but no longer than until the stop.
void pause(milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

EventWatcher::EventWatcher(EngineClient& engine, const Owner& owner, Handlers handlers)
    : engine_(engine),
      owner_(owner),
      handlers_(std::move(handlers)),
      thread_([this](const std::stop_token& stop) { follow(stop); }) {}

void EventWatcher::follow(const std::stop_token& stop) {
  milliseconds wait = kFirstPause;
  while (!stop.stop_requested()) {
    partial_.clear();
    EngineCall call{.target = "/events?" + event_filters(), .stop = stop};
    call.endless = true;
    call.on_data = [this](std::string_view bytes) { return take(bytes); };
    call.on_begin = [&] {
      wait = kFirstPause;
      handlers_.on_connected();
    };
    // Whatever ended the stream, the answer is the same: follow it again.
    static_cast<void>(engine_.send(call));
    pause(wait, stop);
    wait = std::min(wait * 2, kLongestPause);
  }
}

bool EventWatcher::take(std::string_view bytes) {
  partial_ += bytes;
  std::size_t start = 0;
  for (std::size_t end = partial_.find('\n'); end != std::string::npos;
       end = partial_.find('\n', start)) {
    const std::string_view line = std::string_view(partial_).substr(start, end - start);
    if (const auto event = read_event(line, owner_)) {
      handlers_.on_event(*event);
    } else if (const auto container = read_network_event(line)) {
      handlers_.on_network(*container);
    }
    start = end + 1;
  }
  partial_.erase(0, start);
  return partial_.size() <= kMaxEventBytes;
}

}  // namespace sandboxkit::docker
