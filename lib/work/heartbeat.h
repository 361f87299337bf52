#pragma once

#include "sandboxkit/events.h"
#include "sandboxkit/result.h"

#include "base/random.h"
#include "base/thread_pool.h"
#include "io/event_loop.h"
#include "wire/messages.h"
#include "work/credential.h"

#include <chrono>
#include <functional>
#include <string>

namespace sandboxkit::work {

/// Tells the controller regularly how the worker is, and at once when something ended. Takes the
/// worker's next credential from the answer.
/// Thread-safety: the loop's thread; the calls themselves run on a thread of their own.
class Heartbeat {
 public:
  /// Between two heartbeats, however much happens.
  static constexpr std::chrono::milliseconds kLeastGap{200};

  struct Target {
    std::string url;
    std::chrono::milliseconds interval;
  };

  /// `write` makes the body of the next heartbeat.
  Heartbeat(io::EventLoop& loop, Target target, Credential& credential, Random& random,
            EventSink& events, std::function<std::string()> write);

  void start() {
    started_ = true;
    beat();
  }
  /// A heartbeat before its time; several in a row become one. None before the start: until then
  /// nobody knows what the worker can, and the controller would believe that it can nothing.
  void soon();
  void stop();
  std::uint64_t failures() const { return failures_; }

 private:
  struct Outcome {
    Result<wire::HeartbeatAnswer> answer;
    bool soon = false;  ///< The credential changed: it is used at once.
  };
  void beat();
  Outcome call(const std::string& body);
  void answered(const Outcome& outcome);
  bool note_credential(const std::string& used, const Result<wire::HeartbeatAnswer>& answer);
  void schedule(std::chrono::milliseconds delay);

  io::EventLoop& loop_;
  const Target target_;
  Credential& credential_;
  Random& random_;
  EventSink& events_;
  const std::function<std::string()> write_;
  std::chrono::milliseconds interval_;
  io::EventLoop::TimerId timer_ = 0;
  bool started_ = false;
  bool in_flight_ = false;
  bool again_ = false;
  bool early_ = false;
  bool failing_ = false;
  bool stopped_ = false;
  std::uint64_t failures_ = 0;
  ThreadPool thread_{1, 1};
};

}  // namespace sandboxkit::work
