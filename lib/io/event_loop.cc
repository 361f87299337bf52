#include "io/event_loop.h"

#include "base/check.h"
#include "io/fd.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

using Instant = std::chrono::steady_clock::time_point;

constexpr int kEventsAtOnce = 256;
constexpr std::uint64_t kWakeToken = 0;

}  // namespace

struct EventLoop::Impl {
  struct Watch {
    std::uint32_t generation = 0;
    // Shared, because a callback that removes itself must outlive its own call.
    std::shared_ptr<std::function<void(std::uint32_t)>> callback;
  };
  struct Timer {
    std::function<void()> callback;
  };

  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  Fd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unordered_map<int, Watch> watches;
  std::uint32_t last_generation = 0;
  std::map<std::pair<Instant, TimerId>, Timer> timers;
  std::unordered_map<TimerId, Instant> timer_times;
  std::unordered_map<TimerId, std::function<void()>> at_end;
  TimerId last_timer = 0;

  std::mutex posted_mutex;
  std::vector<std::function<void()>> posted;
  std::atomic<bool> stop_asked{false};
  std::atomic<std::thread::id> thread{};

  /// A descriptor's number is reused at once, so an event carries the generation of its watch too.
  static std::uint64_t token_of(int fd, std::uint32_t generation) {
    return (std::uint64_t{generation} << 32) | static_cast<std::uint32_t>(fd);
  }

  void control(int operation, int fd, std::uint32_t events, std::uint64_t token) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = token;
    SANDBOXKIT_CHECK(::epoll_ctl(epoll.get(), operation, fd, &event) == 0,
                     "the descriptor is open, can be polled, and is watched once");
  }

  void wake_up() {
    const std::uint64_t one = 1;
    // A full counter wakes as well, so a failed write changes nothing.
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
  }

  void run_posted() {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(posted_mutex);
      work.swap(posted);
    }
    for (auto& item : work) {
      item();
      item = nullptr;
    }
  }

  void deliver(const epoll_event& event) {
    if (event.data.u64 == kWakeToken) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake.get(), &count, sizeof count);
      return;
    }
    const int fd = static_cast<int>(event.data.u64 & 0xffffffffU);
    const auto found = watches.find(fd);
    if (found == watches.end() || token_of(fd, found->second.generation) != event.data.u64) {
      return;  // Removed, or its number is another descriptor's now.
    }
    const auto callback = found->second.callback;
    (*callback)(event.events);
  }

  void run_due_timers() {
    const Instant now = std::chrono::steady_clock::now();
    while (!timers.empty() && timers.begin()->first.first <= now) {
      const auto due = timers.begin();
      const auto callback = std::move(due->second.callback);
      timer_times.erase(due->first.second);
      timers.erase(due);
      callback();
    }
  }

  int wait_ms(Duration max_wait) const {
    if (timers.empty()) {
      return static_cast<int>(max_wait.count());
    }
    // Rounded up: a timer that is asked for too early would only make the loop turn once more.
    const auto left =
        std::chrono::ceil<Duration>(timers.begin()->first.first - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp(left, Duration{0}, max_wait).count());
  }

  void turn(Duration max_wait) {
    {
      const std::lock_guard lock(posted_mutex);
      max_wait = posted.empty() ? max_wait : Duration{0};
    }
    std::array<epoll_event, kEventsAtOnce> events;
    const int count = ::epoll_wait(epoll.get(), events.data(), kEventsAtOnce, wait_ms(max_wait));
    SANDBOXKIT_CHECK(count >= 0 || errno == EINTR, "the epoll descriptor is ours");
    for (int i = 0; i < count; ++i) {
      deliver(events[static_cast<std::size_t>(i)]);
    }
    run_due_timers();
    run_posted();
  }
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {
  SANDBOXKIT_CHECK(impl_->epoll && impl_->wake, "a process has descriptors left for its loop");
  impl_->control(EPOLL_CTL_ADD, impl_->wake.get(), EPOLLIN, kWakeToken);
}

EventLoop::~EventLoop() {
  while (!impl_->at_end.empty()) {
    const auto last = impl_->at_end.extract(impl_->at_end.begin());
    last.mapped()();
  }
  // What a callback owns may use the loop while it is destroyed, so the tables are emptied first.
  while (!impl_->watches.empty() || !impl_->timers.empty() || !impl_->posted.empty()) {
    const auto watches = std::exchange(impl_->watches, {});
    const auto timers = std::exchange(impl_->timers, {});
    const auto posted = std::exchange(impl_->posted, {});
    impl_->timer_times.clear();
  }
}

void EventLoop::add(int fd, std::uint32_t events, std::function<void(std::uint32_t)> callback) {
  // Generation 0 is never given: with descriptor 0 it would be the token of the wake-up.
  impl_->last_generation += impl_->last_generation == UINT32_MAX ? 2 : 1;
  const std::uint32_t generation = impl_->last_generation;
  impl_->control(EPOLL_CTL_ADD, fd, events, Impl::token_of(fd, generation));
  impl_->watches[fd] = Impl::Watch{
      generation, std::make_shared<std::function<void(std::uint32_t)>>(std::move(callback))};
}

void EventLoop::modify(int fd, std::uint32_t events) {
  const auto found = impl_->watches.find(fd);
  SANDBOXKIT_CHECK(found != impl_->watches.end(), "only a watched descriptor is modified");
  impl_->control(EPOLL_CTL_MOD, fd, events, Impl::token_of(fd, found->second.generation));
}

void EventLoop::remove(int fd) {
  const auto found = impl_->watches.find(fd);
  if (found == impl_->watches.end()) {
    return;
  }
  const auto callback = std::move(found->second.callback);  // Destroyed after the table is whole.
  impl_->watches.erase(found);
  ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::run_after(Duration delay, std::function<void()> callback) {
  const TimerId id = ++impl_->last_timer;
  const Instant due = std::chrono::steady_clock::now() + delay;
  impl_->timer_times.emplace(id, due);
  impl_->timers.emplace(std::pair{due, id}, Impl::Timer{std::move(callback)});
  return id;
}

EventLoop::TimerId EventLoop::run_at_end(std::function<void()> callback) {
  const TimerId id = ++impl_->last_timer;
  impl_->at_end.emplace(id, std::move(callback));
  return id;
}

void EventLoop::cancel(TimerId timer) {
  const auto at_end = impl_->at_end.extract(timer);
  const auto found = impl_->timer_times.find(timer);
  if (found == impl_->timer_times.end()) {
    return;
  }
  const auto node = impl_->timers.extract({found->second, timer});
  impl_->timer_times.erase(found);
}

void EventLoop::post(std::function<void()> work) {
  bool first = false;
  {
    const std::lock_guard lock(impl_->posted_mutex);
    first = impl_->posted.empty();
    impl_->posted.push_back(std::move(work));
  }
  // The loop's own thread looks at what is posted before it waits again.
  if (first && !on_loop_thread()) {
    impl_->wake_up();
  }
}

void EventLoop::run() {
  impl_->thread = std::this_thread::get_id();
  constexpr Duration kLongest{60'000};
  while (!impl_->stop_asked.load()) {
    impl_->turn(kLongest);
  }
  impl_->run_posted();
  // Reset here and not at the start, so that a stop that comes before `run` is not lost.
  impl_->stop_asked = false;
  impl_->thread = std::thread::id{};
}

void EventLoop::stop() {
  impl_->stop_asked = true;
  impl_->wake_up();
}

void EventLoop::run_once(Duration max_wait) {
  impl_->thread = std::this_thread::get_id();
  impl_->turn(max_wait);
  impl_->thread = std::thread::id{};
}

bool EventLoop::on_loop_thread() const {
  return impl_->thread.load() == std::this_thread::get_id();
}

}  // namespace sandboxkit::io
