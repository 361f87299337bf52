#include "audit/writer.h"

#include <csignal>
#include <utility>

namespace sandboxkit::audit {
namespace {

using std::chrono::microseconds;

constexpr microseconds kLongSleep = std::chrono::hours(1);

Error unavailable(const std::string& why) {
  return Error{ErrorCode::kUnavailable, "the audit log cannot be written: " + why,
               "audit_unavailable"};
}

Error queue_full() {
  return Error{ErrorCode::kResourceExhausted, "the audit log is too slow for what it is told",
               "audit_queue_full"};
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::open(const LogOptions& options,
                                             const Surroundings& machine) {
  const NoSizeSignal no_signal;
  auto log = Log::open(options, machine);
  if (!log) {
    return log.error();
  }
  return std::unique_ptr<Writer>(new Writer(std::move(*log), machine));
}

Writer::Writer(std::unique_ptr<Log> log, const Surroundings& machine)
    : machine_(machine), salt_(log->salt()), log_(std::move(log)) {
  state_.head = log_->head();
  settled_ = log_->committed_entries();
  thread_ = std::thread([this] { run(); });
}

Writer::~Writer() { static_cast<void>(close()); }

Status Writer::write(const Record& record) {
  const bool wait = must_sync(record) || failing_.load();
  return submit({.fields = render_fields(record, salt_), .may_fold = may_fold(record)}, wait);
}

Status Writer::flush() { return submit({.is_flush = true}, true); }

Status Writer::submit(Job job, bool wait) {
  Waiter waiter;
  std::unique_lock lock(mutex_);
  if (closing_) {
    return unavailable("it is closed");
  }
  const std::size_t bytes = job.fields.what.size() + job.fields.which.size();
  const bool full = jobs_.size() >= kMaxQueued || queued_bytes_ + bytes > kMaxQueuedBytes;
  if (full && !job.is_flush) {  // Of those there are no more than threads that wait.
    ++state_.lost;
    ++lost_since_line_;
    return queue_full();
  }
  queued_bytes_ += bytes;
  job.waiter = wait ? &waiter : nullptr;
  jobs_.push_back(std::move(job));
  wake_.notify_one();
  if (!wait) {
    return {};
  }
  done_.wait(lock, [&] { return waiter.outcome.has_value(); });
  return *waiter.outcome;
}

Status Writer::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  return closed_;
}

WriterState Writer::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Writer::run() {
  // Signals are for other threads; and a write past the limit of a file's size is an error here,
  // and no reason to die.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (true) {
    std::vector<Job> jobs = next_jobs();
    const bool last = jobs.empty() && [this] {
      const std::lock_guard lock(mutex_);
      return closing_ && jobs_.empty();
    }();
    for (Job& job : jobs) {
      take(std::move(job));
    }
    take_repeats(last ? fold_.drain() : fold_.due(machine_.ticks.now()));
    if (last || commit_is_due()) {
      commit();
    } else if (!failed_at_) {
      // In the file at once: a killed process loses nothing, a killed machine the last group.
      if (const Status appended = append_pending(); !appended) {
        finish(appended);
      }
    }
    if (last) {
      break;
    }
  }
  closed_ = failed_at_ ? Status(unavailable(state().problem)) : log_->seal();
  const std::lock_guard lock(mutex_);
  state_.head = log_->head();
}

std::vector<Writer::Job> Writer::next_jobs() {
  std::unique_lock lock(mutex_);
  if (jobs_.empty() && !closing_) {
    wake_.wait_for(lock, sleep_time(), [this] { return closing_ || !jobs_.empty(); });
  }
  std::vector<Job> jobs(std::make_move_iterator(jobs_.begin()),
                        std::make_move_iterator(jobs_.end()));
  jobs_.clear();
  queued_bytes_ = 0;
  return jobs;
}

/// Until the next thing that nobody asks for.
microseconds Writer::sleep_time() const {
  microseconds wake = machine_.ticks.now() + kLongSleep;
  const auto consider = [&](std::optional<microseconds> at, microseconds delay) {
    wake = at ? std::min(wake, *at + delay) : wake;
  };
  consider(fold_.next(), microseconds(0));
  consider(failed_at_ ? std::nullopt : group_since_, kGroupDelay);
  consider(pending_.empty() ? std::nullopt : failed_at_, kRetryDelay);
  return std::max(wake - machine_.ticks.now(), microseconds(0));
}

void Writer::take(Job job) {
  if (job.is_flush) {
    take_repeats(fold_.drain());
    flushes_.push_back(job.waiter);
    return;
  }
  // While the log fails, the caller waits for a line of its own.
  const bool may_fold = job.may_fold && job.waiter == nullptr;
  if (may_fold && fold_.take(job.fields.what, machine_.ticks.now())) {
    return;
  }
  add(job.fields.what + job.fields.which, job.waiter);
}

void Writer::take_repeats(const std::vector<Fold::Repeats>& repeats) {
  for (const Fold::Repeats& one : repeats) {
    add(one.what + ",\"repeat\":" + std::to_string(one.count), nullptr);
  }
}

void Writer::add(std::string fields, Waiter* waiter) {
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    lost = std::exchange(lost_since_line_, 0);
  }
  const microseconds now = machine_.ticks.now();
  pending_.push_back({{std::move(fields), machine_.clock.now(), now, lost}, waiter});
  group_since_ = group_since_.value_or(now);
  waiting_ += waiter != nullptr ? 1 : 0;
}

bool Writer::commit_is_due() const {
  const microseconds now = machine_.ticks.now();
  if (waiting_ > 0 || !flushes_.empty()) {
    return true;
  }
  if (failed_at_) {
    return !pending_.empty() && now >= *failed_at_ + kRetryDelay;
  }
  return pending_.size() >= kGroupLines || (group_since_ && now >= *group_since_ + kGroupDelay);
}

void Writer::commit() {
  if (failed_at_ && pending_.empty()) {
    // Nothing is left to write, and nothing shows that writing works again.
    answer_flushes({});
    return;
  }
  Status done = append_pending();
  if (done) {
    done = log_->commit();
  }
  finish(done);
  answer_flushes(done ? Status() : Status(unavailable(done.error().message)));
}

Status Writer::append_pending() {
  for (; appended_ < pending_.size(); ++appended_) {
    if (auto written = log_->append(pending_[appended_].entry); !written) {
      return written;
    }
  }
  return {};
}

void Writer::finish(const Status& done) {
  {
    // Before anybody is told: who then asks for the state sees what its answer came from.
    const std::lock_guard lock(mutex_);
    state_.writable = done.has_value();
    state_.problem = done ? std::string() : done.error().message;
    state_.head = log_->head();
  }
  settle();
  if (done) {
    failed_at_.reset();
    failing_ = false;
  } else {
    give_up(done.error());
  }
}

/// What is on the disk is told to who waits for it; also after an error, as a rotation may have put
/// a part there.
void Writer::settle() {
  for (; settled_ < log_->committed_entries(); ++settled_) {
    tell(pending_.front().waiter, {});
    pending_.pop_front();
    --appended_;
  }
  group_since_ = pending_.empty() ? std::nullopt : group_since_;
}

void Writer::answer_flushes(const Status& outcome) {
  const std::lock_guard lock(mutex_);
  for (Waiter* waiter : std::exchange(flushes_, {})) {
    waiter->outcome = outcome;
  }
  done_.notify_all();
}

/// Who waits is told; what was taken before stays, and is tried again.
void Writer::give_up(const Error& problem) {
  appended_ = 0;  // The log is back at its last commit.
  failed_at_ = machine_.ticks.now();
  failing_ = true;
  std::deque<Pending> kept;
  std::vector<Waiter*> refused;
  std::uint64_t lost = 0;
  for (Pending& one : pending_) {
    if (one.waiter == nullptr) {
      one.entry.lost += std::exchange(lost, 0);
      kept.push_back(std::move(one));
    } else {
      lost += one.entry.lost + 1;
      refused.push_back(one.waiter);
    }
  }
  pending_ = std::move(kept);
  {
    const std::lock_guard lock(mutex_);
    lost_since_line_ += lost;
    state_.lost += refused.size();
  }
  for (Waiter* waiter : refused) {
    tell(waiter, unavailable(problem.message));
  }
}

void Writer::tell(Waiter* waiter, Status outcome) {
  if (waiter == nullptr) {
    return;
  }
  --waiting_;
  const std::lock_guard lock(mutex_);
  waiter->outcome = std::move(outcome);
  done_.notify_all();
}

}  // namespace sandboxkit::audit
