#pragma once

#include "sandboxkit/result.h"
#include "sandboxkit/sandbox_spec.h"

#include "base/thread_pool.h"
#include "io/event_loop.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

namespace sandboxkit::work {

/// What a job answers: the sandbox's state, once it is true.
using JobResult = Result<SandboxState>;

/// One piece of blocking work for one sandbox.
struct Job {
  enum class Kind : std::uint8_t { kCreate, kRemove, kOther };
  Kind kind = Kind::kOther;
  /// Runs on a pool's thread.
  std::function<JobResult(std::stop_token)> work;
  /// Runs on the loop's thread.
  std::function<void(JobResult)> done{};
};

/// Runs the jobs of one sandbox one after the other, those of different sandboxes side by side.
///
/// A remove asks a create that is under way to stop, and cancels creates that wait before it.
/// Creates have threads of their own, so that they cannot keep a remove waiting.
/// Thread-safety: the loop's thread.
class Lanes {
 public:
  static constexpr std::size_t kMaxWaiting = 32;  ///< Of one sandbox.

  Lanes(io::EventLoop& loop, ThreadPool& creates, ThreadPool& others)
      : loop_(loop), creates_(creates), others_(others) {}

  /// `done` gets kResourceExhausted `overloaded` when there is no room.
  void add(const std::string& sandbox, Job job);
  bool busy(const std::string& sandbox) const { return lanes_.contains(sandbox); }
  /// Asks every create that is under way to stop, and drops those that wait.
  void stop_creates();

 private:
  struct Lane {
    Job::Kind running = Job::Kind::kOther;
    std::stop_source stop{};
    std::deque<Job> waiting{};
  };
  void start_next(const std::string& sandbox);
  void finish(const std::string& sandbox, const std::function<void(JobResult)>& done,
              JobResult result);
  static void cancel_creates(Lane& lane, const char* why);

  io::EventLoop& loop_;
  ThreadPool& creates_;
  ThreadPool& others_;
  std::map<std::string, Lane> lanes_;  // Only lanes with a job under way.
};

}  // namespace sandboxkit::work
