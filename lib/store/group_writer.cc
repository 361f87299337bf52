#include "store/group_writer.h"

#include "base/check.h"
#include "base/fault_point.h"

#include <exception>
#include <utility>

namespace sandboxkit::store {
namespace {

Status call(const GroupWriter::Body& body, Connection& connection) {
  try {
    return body(connection);
  } catch (const std::exception& problem) {
    return Error{ErrorCode::kInternal, std::string("transaction threw: ") + problem.what()};
  }
}

}  // namespace

GroupWriter::GroupWriter(std::unique_ptr<Connection> connection, std::size_t max_waiting,
                         Histogram* group_sizes)
    : connection_(std::move(connection)),
      max_waiting_(max_waiting),
      group_sizes_(group_sizes),
      thread_([this] { serve(); }) {}

GroupWriter::~GroupWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waiting_.notify_all();
  thread_.join();
}

Status GroupWriter::run(const Body& body) {
  SANDBOXKIT_CHECK(std::this_thread::get_id() != thread_.get_id(),
                   "a write inside of a write would wait for itself");
  const auto job = std::make_shared<Job>(&body);
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= max_waiting_) {
      return Error{ErrorCode::kUnavailable, "too many writes wait for the store; try again later",
                   "overloaded"};
    }
    queue_.push_back(job);
  }
  waiting_.notify_one();
  job->done.wait(false);
  return std::move(job->status);
}

std::shared_ptr<GroupWriter::Job> GroupWriter::next(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) {
    waiting_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  }
  if (queue_.empty()) {
    return nullptr;
  }
  auto job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

void GroupWriter::serve() {
  while (auto first = next(/*wait=*/true)) {
    Group group;
    if (run_group(std::move(first), /*take_more=*/true, group)) {
      continue;
    }
    // One of them took the whole transaction down (a disk that is full may do that). Alone, each
    // meets its own fate; bodies are made to run again.
    for (const auto& job : group) {
      Group alone;
      if (!run_group(job, /*take_more=*/false, alone)) {
        answer(alone, store_unavailable("store lost the transaction; nothing was written"));
      }
    }
  }
}

bool GroupWriter::run_group(std::shared_ptr<Job> first, bool take_more, Group& group) {
  Status whole = connection_->script("BEGIN IMMEDIATE");
  for (auto job = std::move(first); job != nullptr;) {
    group.push_back(job);
    if (!whole) {
      break;
    }
    run_job(*job);
    if (!connection_->in_transaction()) {
      // Alone, the job itself says why.
      if (group.size() == 1 && !job->status) {
        answer(group, {});
        return true;
      }
      return false;
    }
    job = take_more && group.size() < kMaxGroup ? next(/*wait=*/false) : nullptr;
  }
  if (whole) {
    SANDBOXKIT_FAULT_POINT("store.commit.before");
    whole = connection_->script("COMMIT");
    SANDBOXKIT_FAULT_POINT("store.commit.after");
  }
  if (!whole && connection_->in_transaction()) {
    static_cast<void>(connection_->script("ROLLBACK"));
  }
  static_cast<void>(connection_->take_fault());
  answer(group, whole);
  return true;
}

void GroupWriter::run_job(Job& job) {
  static_cast<void>(connection_->take_fault());
  job.status = connection_->script("SAVEPOINT job");
  if (job.status) {
    job.status = call(*job.body, *connection_);
  }
  if (auto fault = connection_->take_fault()) {
    job.status = std::move(*fault);
  }
  if (!connection_->in_transaction()) {
    return;
  }
  const char* const end = job.status ? "RELEASE job" : "ROLLBACK TO job; RELEASE job";
  if (auto status = connection_->script(end); !status) {
    // A savepoint that cannot be ended leaves writes that nobody answers for.
    job.status = std::move(status);
    static_cast<void>(connection_->script("ROLLBACK"));
  }
}

void GroupWriter::answer(const Group& group, const Status& whole) {
  if (group_sizes_ != nullptr) {
    group_sizes_->observe(group.size());
  }
  for (const auto& job : group) {
    if (!whole) {
      job->status = whole;
    }
    job->done = true;
    job->done.notify_one();
  }
}

}  // namespace sandboxkit::store
