#pragma once

#include "base/metrics.h"
#include "store/sqlite.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sandboxkit::store {

/// The one thread that writes. Jobs that wait at the same time share a transaction, and so the one
/// wait for the disk that makes it durable.
///
/// Each job runs inside of a savepoint of its own: one that fails undoes its own writes only.
/// Nobody is answered before the commit, because a job has seen what those before it wrote: when
/// the commit fails, all fail. Thread-safety: any thread but the writer's own.
class GroupWriter {
 public:
  static constexpr std::size_t kMaxGroup = 64;
  /// Writes that may wait for the one thread: more than all threads of a daemon together, so that
  /// only a defect or an embedder with many threads meets it.
  static constexpr std::size_t kMaxWaiting = 4096;
  using Body = std::function<Status(Connection&)>;

  explicit GroupWriter(std::unique_ptr<Connection> connection,
                       std::size_t max_waiting = kMaxWaiting, Histogram* group_sizes = nullptr);
  ~GroupWriter();  ///< Finishes what was accepted.
  GroupWriter(const GroupWriter&) = delete;
  GroupWriter& operator=(const GroupWriter&) = delete;

  /// Blocking until the commit. The body may run more than once. Errors: kUnavailable `overloaded`
  /// at once when too many wait; those of the body and of the commit.
  Status run(const Body& body);

 private:
  struct Job {
    const Body* body;
    Status status{};
    /// Each caller sleeps on its own flag: one flag for all would wake a crowd at every commit.
    std::atomic<bool> done = false;

    explicit Job(const Body* the_body) : body(the_body) {}
  };
  using Group = std::vector<std::shared_ptr<Job>>;

  void serve();
  std::shared_ptr<Job> next(bool wait);
  /// Runs `first` and, where asked for, what waits behind it. False: the transaction was lost.
  bool run_group(std::shared_ptr<Job> first, bool take_more, Group& group);
  void run_job(Job& job);
  void answer(const Group& group, const Status& whole);

  std::unique_ptr<Connection> connection_;
  const std::size_t max_waiting_;
  Histogram* const group_sizes_;  ///< Null: nobody counts.
  std::mutex mutex_;
  std::condition_variable waiting_;
  std::deque<std::shared_ptr<Job>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sandboxkit::store
