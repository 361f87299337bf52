#include "work/lanes.h"

#include <memory>
#include <utility>

namespace sandboxkit::work {
namespace {

Error overloaded() {
  return Error{ErrorCode::kUnavailable, "the worker has too much to do; try again", "overloaded"};
}

void tell(const std::function<void(JobResult)>& done, JobResult result) {
  if (done) {
    done(std::move(result));
  }
}

}  // namespace

void Lanes::add(const std::string& sandbox, Job job) {
  const auto found = lanes_.find(sandbox);
  if (found == lanes_.end()) {
    lanes_[sandbox].waiting.push_back(std::move(job));
    return start_next(sandbox);
  }
  Lane& lane = found->second;
  if (job.kind == Job::Kind::kRemove) {
    cancel_creates(lane, "a remove came before the create was begun");
  }
  if (lane.waiting.size() >= kMaxWaiting) {
    return tell(job.done, overloaded());
  }
  lane.waiting.push_back(std::move(job));
}

void Lanes::cancel_creates(Lane& lane, const char* why) {
  if (lane.running == Job::Kind::kCreate) {
    lane.stop.request_stop();
  }
  std::deque<Job> kept;
  std::deque<Job> cancelled;
  for (Job& job : lane.waiting) {
    (job.kind == Job::Kind::kCreate ? cancelled : kept).push_back(std::move(job));
  }
  lane.waiting = std::move(kept);
  for (const Job& job : cancelled) {
    tell(job.done, Error{ErrorCode::kCancelled, why});
  }
}

void Lanes::stop_creates() {
  for (auto& [sandbox, lane] : lanes_) {
    cancel_creates(lane, "the worker stops creating for now");
  }
}

void Lanes::start_next(const std::string& sandbox) {
  while (true) {
    const auto found = lanes_.find(sandbox);
    if (found == lanes_.end() || found->second.waiting.empty()) {
      lanes_.erase(sandbox);
      return;
    }
    Lane& lane = found->second;
    // Shared, because std::function wants to be copied and a job should not be.
    const auto job = std::make_shared<Job>(std::move(lane.waiting.front()));
    lane.waiting.pop_front();
    lane.running = job->kind;
    lane.stop = std::stop_source{};
    auto run = [this, sandbox, job, stop = lane.stop.get_token()] {
      // Shared, because it travels back in a std::function.
      auto result = std::make_shared<JobResult>(job->work(stop));
      loop_.post([this, sandbox, job, result] { finish(sandbox, job->done, std::move(*result)); });
    };
    ThreadPool& pool = job->kind == Job::Kind::kCreate ? creates_ : others_;
    if (pool.submit(std::move(run))) {
      return;
    }
    tell(job->done, overloaded());
  }
}

void Lanes::finish(const std::string& sandbox, const std::function<void(JobResult)>& done,
                   JobResult result) {
  start_next(sandbox);
  tell(done, std::move(result));
}

}  // namespace sandboxkit::work
