#pragma once

#include "audit/fold.h"
#include "audit/log.h"
#include "audit/record.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sandboxkit::audit {

/// Allowed reads and writes reach the disk together, this late or this many at most.
inline constexpr std::chrono::milliseconds kGroupDelay{50};
inline constexpr std::size_t kGroupLines = 256;
inline constexpr std::size_t kMaxQueued = 4096;
inline constexpr std::size_t kMaxQueuedBytes = 8U << 20;
/// How often a log that cannot be written is tried by itself; each call tries it as well.
inline constexpr std::chrono::seconds kRetryDelay{1};

/// How the log fares, for the gate and its status.
struct WriterState {
  bool writable = true;
  std::string problem{};   ///< Why not.
  std::uint64_t lost = 0;  ///< Records so far of which the caller was told that they are not kept.
  Head head{};             ///< For a witness elsewhere: the worker's heartbeat.
};

/// Writes the gate's audit log: one thread, one chain of files.
///
/// Thread-safety: any thread. At its end it writes what is left and seals the chain.
/// Source: design of the permission gate, section 6.
class Writer final {
 public:
  static Result<std::unique_ptr<Writer>> open(const LogOptions& options,
                                              const Surroundings& machine);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Returns when the record is on the disk, or, for an allowed read or write, when it is taken: it
  /// reaches the disk within `kGroupDelay`. Equal allowed reads within a second become one line
  /// with `repeat`.
  ///
  /// Errors: the record is not in the log; its number shows in the next line's `lost`. kUnavailable
  /// `audit_unavailable` when it cannot be written (the disk is full), kResourceExhausted
  /// `audit_queue_full`. Who must not act unseen then denies.
  /// Blocking: as above, for as long as the disk takes; while the log cannot be written, every call
  /// tries it and waits.
  Status write(const Record& record);
  /// Everything that was taken so far is on the disk, counts of repeats too.
  Status flush();
  /// Writes what is left, seals the chain and ends; later records are refused. Called by one
  /// thread.
  Status close();

  WriterState state() const;

 private:
  struct Waiter {
    std::optional<Status> outcome{};
  };
  struct Job {
    Fields fields{};
    bool may_fold = false;
    bool is_flush = false;
    Waiter* waiter = nullptr;  // On its caller's stack, which waits for the outcome.
  };
  struct Pending {
    Entry entry;
    Waiter* waiter = nullptr;
  };

  Writer(std::unique_ptr<Log> log, const Surroundings& machine);
  Status submit(Job job, bool wait);
  void run();
  std::vector<Job> next_jobs();
  std::chrono::microseconds sleep_time() const;
  void take(Job job);
  void take_repeats(const std::vector<Fold::Repeats>& repeats);
  void add(std::string fields, Waiter* waiter);
  bool commit_is_due() const;
  void commit();
  Status append_pending();
  void finish(const Status& done);
  void settle();
  void give_up(const Error& problem);
  void answer_flushes(const Status& outcome);
  void tell(Waiter* waiter, Status outcome);

  const Surroundings machine_;
  const Key salt_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job> jobs_;
  std::size_t queued_bytes_ = 0;
  bool closing_ = false;
  WriterState state_;
  std::uint64_t lost_since_line_ = 0;
  Status closed_;

  // The thread's own.
  std::unique_ptr<Log> log_;
  Fold fold_;
  std::deque<Pending> pending_;
  std::size_t appended_ = 0;  // So many of them are in the file, from the front.
  std::uint64_t settled_ = 0;
  std::size_t waiting_ = 0;
  std::vector<Waiter*> flushes_;
  std::optional<std::chrono::microseconds> group_since_;
  std::optional<std::chrono::microseconds> failed_at_;
  std::atomic<bool> failing_{false};
  std::thread thread_;
};

}  // namespace sandboxkit::audit
