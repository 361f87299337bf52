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

Heartbeat::Heartbeat(io::EventLoop& loop, Target target, Credential& credential, Random& random,
                     EventSink& events, std::function<std::string()> write)
    : loop_(loop),
      target_(std::move(target)),
      credential_(credential),
      random_(random),
      events_(events),
      write_(std::move(write)),
      interval_(target_.interval) {}

void Heartbeat::soon() {
  if (!started_) {
    return;
  }
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
    auto outcome = call(body);
    loop_.post([this, outcome = std::move(outcome)] { answered(outcome); });
  });
}

Heartbeat::Outcome Heartbeat::call(const std::string& body) {
  const std::string used = credential_.current();
  const auto reply = post(target_.url, "/v1/worker/heartbeat", used, body, kTimeout);
  const auto text = reply ? body_or_error(*reply) : Result<std::string>(reply.error());
  const auto value = text ? json::parse(*text) : Result<json::Value>(text.error());
  auto answer = value ? wire::heartbeat_answer_from_json(*value)
                      : Result<wire::HeartbeatAnswer>(value.error());
  const bool changed = note_credential(used, answer);
  return {std::move(answer), changed};
}

/// True when another credential is current now.
bool Heartbeat::note_credential(const std::string& used,
                                const Result<wire::HeartbeatAnswer>& answer) {
  Status kept;
  if (answer) {
    kept = credential_.worked(used);
    if (kept && !answer->credential.empty()) {
      kept = credential_.take(answer->credential);
    }
  } else if (answer.error().code == ErrorCode::kUnauthenticated) {
    const auto went_back = credential_.refused(used);
    kept = went_back ? Status() : Status(went_back.error());
  }
  if (!kept) {
    events_.tell(Event{Severity::kError, "credential_not_kept", kept.error().message, {}});
  }
  return credential_.current() != used;
}

void Heartbeat::answered(const Outcome& outcome) {
  in_flight_ = false;
  if (stopped_) {
    return;
  }
  const auto& answer = outcome.answer;
  failures_ += answer ? 0 : 1;
  if (!answer && !failing_) {
    events_.tell(Event{Severity::kWarning,
                       "heartbeat_failed",
                       answer.error().message,
                       {{"reason", reason_of(answer.error())}}});
  }
  failing_ = !answer;
  again_ = again_ || outcome.soon;
  if (answer) {
    interval_ = answer->interval;
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
