#include "work/heartbeat.h"

#include "json/value.h"
#include "wire/messages.h"
#include "work/post.h"

#include <memory>
#include <utility>

namespace sandboxkit::work {
namespace {

constexpr std::chrono::milliseconds kTimeout{5'000};

}  // namespace

Heartbeat::Heartbeat(io::EventLoop& loop, Target target, Random& random, EventSink& events,
                     std::function<std::string()> write)
    : loop_(loop),
      target_(std::move(target)),
      random_(random),
      events_(events),
      write_(std::move(write)),
      interval_(target_.interval) {}

void Heartbeat::soon() {
  if (in_flight_) {
    again_ = true;
  } else if (!early_) {
    early_ = true;
    schedule(kLeastGap);
  }
}

void Heartbeat::stop() {
  stopped_ = true;
  loop_.cancel(timer_);
  thread_.stop();
}

void Heartbeat::beat() {
  early_ = false;
  in_flight_ = thread_.submit([this, body = write_()] {
    const auto reply =
        post(target_.url, "/v1/worker/heartbeat", target_.credential, body, kTimeout);
    auto answer = reply ? body_or_error(*reply) : Result<std::string>(reply.error());
    loop_.post([this, answer = std::move(answer)] { answered(answer); });
  });
}

void Heartbeat::answered(const Result<std::string>& answer) {
  in_flight_ = false;
  if (stopped_) {
    return;
  }
  if (!answer && !failing_) {
    events_.tell(Event{Severity::kWarning,
                       "heartbeat_failed",
                       answer.error().message,
                       {{"reason", reason_of(answer.error())}}});
  }
  failing_ = !answer;
  if (const auto value = answer ? json::parse(*answer) : Result<json::Value>(answer.error())) {
    interval_ = wire::heartbeat_answer_from_json(*value).value_or(interval_);
  }
  // A tenth of jitter each way keeps a fleet's heartbeats apart.
  const auto tenth = static_cast<std::uint64_t>(interval_.count() / 10);
  const auto jitter = static_cast<std::int64_t>(random_.next_u64() % (2 * tenth + 1));
  const auto next =
      interval_ - std::chrono::milliseconds(tenth) + std::chrono::milliseconds(jitter);
  schedule(std::exchange(again_, false) ? kLeastGap : next);
}

void Heartbeat::schedule(std::chrono::milliseconds delay) {
  loop_.cancel(timer_);
  timer_ = loop_.run_after(delay, [this] { beat(); });
}

}  // namespace sandboxkit::work
