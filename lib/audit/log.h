#pragma once

#include "sandboxkit/clock.h"

#include "audit/files.h"
#include "audit/key.h"
#include "audit/line.h"
#include "base/random.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace sandboxkit::audit {

inline constexpr std::uint64_t kMaxSegmentBytes = 64ULL << 20;
/// A segment holds its own lines and one full record at least.
inline constexpr std::uint64_t kMinSegmentBytes = 2 * kMaxLineBytes;
/// Other chains that a new one notes the heads of: those that were written last.
inline constexpr std::size_t kMaxSeen = 128;
inline constexpr int kMaxWritersOfPid = 1000;

struct LogOptions {
  /// Made (0700) when it is not there; its parent must be.
  std::string folder;
  /// Signs the heads; made (0600) when it is not there. Empty: unsigned.
  std::string key_file{};
  std::uint64_t max_segment_bytes = kMaxSegmentBytes;
  /// Sealed segments are removed when they are older. Zero: never; else a day at least.
  std::chrono::hours retention{0};
};

/// Where time comes from besides the wall clock: microseconds that never go back.
/// Thread-safety: any thread.
class Ticks {
 public:
  virtual ~Ticks() = default;
  virtual std::chrono::microseconds now() const = 0;
};
Ticks& system_ticks();

/// What the machine gives the log.
struct Surroundings {
  const Clock& clock;
  const Ticks& ticks;
  Random& random;
};

/// One record on its way into the log.
struct Entry {
  std::string fields;
  WallTime time;
  std::chrono::microseconds ticks;
  std::uint64_t lost = 0;
};

/// One chain on the disk: hashes, writes, rotates, keeps the head. After any error it stands where
/// the last `commit` left it: what was appended since is gone, and may be appended once more.
///
/// Thread-safety: one thread at a time. Blocking: on the disk. A write past RLIMIT_FSIZE raises
/// SIGXFSZ, which the calling thread must block.
class Log {
 public:
  /// Takes a chain's name, opens its first segment, and retires what is past the retention.
  static Result<std::unique_ptr<Log>> open(const LogOptions& options, const Surroundings& machine);

  /// Writes a line; not synced. Rotates before it when the segment is full or the day is over.
  Status append(const Entry& entry);
  /// Everything that was appended is on the disk, and the head names it.
  Status commit();
  /// Seals the segment; the next append would open another.
  Status seal();

  /// Entries that are on the disk for good, since the beginning.
  std::uint64_t committed_entries() const { return committed_.entries; }
  const Head& head() const { return committed_.head; }
  /// What redactions are salted with.
  const Key& salt() const { return salt_; }

 private:
  struct Position {
    Head head{};
    std::uint64_t lines_in_segment = 0;
    std::uint64_t size = 0;
    std::uint64_t entries = 0;
  };
  Log(LogOptions options, const Surroundings& machine, io::Fd folder, std::optional<Key> key,
      const Key& salt);
  Status take_chain();
  Status begin_segment();
  Status open_segment(const Opening& opening);
  Status make_room(const Entry& entry);
  Status cut_rest();
  Status write_line(const Entry& entry);
  Status write_own_line(std::string fields);
  Status write_head();
  Status retire();
  Status undone(Status problem);
  Opening opening(std::uint64_t segment) const;
  std::vector<Head> heads_of_others() const;

  const LogOptions options_;
  const Surroundings machine_;
  const io::Fd folder_;
  const std::optional<Key> key_;
  const Key salt_;
  std::string chain_;
  std::optional<SegmentFile> file_;
  std::chrono::sys_days day_{};
  bool has_rest_ = false;  // Behind the last commit lies what could not be cut off yet.
  Position now_;
  Position committed_;
};

}  // namespace sandboxkit::audit
