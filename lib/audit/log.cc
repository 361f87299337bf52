#include "audit/log.h"

#include "audit/folder.h"
#include "audit/retire.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::audit {
namespace {

constexpr std::size_t kBootChars = 12;
constexpr std::size_t kMaxBootIdBytes = 64;
constexpr std::chrono::hours kMinRetention{24};

class SteadyTicks final : public Ticks {
 public:
  std::chrono::microseconds now() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

/// Which start of the machine this is: process ids say nothing across two of them.
std::string boot_name(Random& random) {
  auto id = read_small_file({AT_FDCWD, "/proc/sys/kernel/random/boot_id"}, kMaxBootIdBytes);
  std::string name = id ? *id : std::string();
  std::erase_if(name, [](char c) { return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')); });
  return name.size() >= kBootChars ? name.substr(0, kBootChars) : random.text(kBootChars, kBase36);
}

std::chrono::sys_days day_of(WallTime time) { return std::chrono::floor<std::chrono::days>(time); }

Status check_options(const LogOptions& options) {
  if (options.max_segment_bytes < kMinSegmentBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "`max_segment_bytes` must be " + std::to_string(kMinSegmentBytes) + " at least",
                 {},
                 "max_segment_bytes"};
  }
  if (options.retention.count() != 0 && options.retention < kMinRetention) {
    return Error{ErrorCode::kInvalidArgument,
                 "`retention` must be a day at least, or zero to keep everything",
                 {},
                 "retention"};
  }
  return {};
}

std::int64_t changed_at(int folder, const std::string& file) {
  struct stat facts {};
  return ::fstatat(folder, file.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 ? facts.st_mtim.tv_sec
                                                                           : 0;
}

}  // namespace

Ticks& system_ticks() {
  static SteadyTicks ticks;
  return ticks;
}

Log::Log(LogOptions options, const Surroundings& machine, io::Fd folder, std::optional<Key> key,
         const Key& salt)
    : options_(std::move(options)),
      machine_(machine),
      folder_(std::move(folder)),
      key_(key),
      salt_(salt) {}

Result<std::unique_ptr<Log>> Log::open(const LogOptions& options, const Surroundings& machine) {
  if (auto status = check_options(options); !status) {
    return status.error();
  }
  auto folder = open_audit_folder(options.folder);
  if (!folder) {
    return folder.error();
  }
  std::optional<Key> key;
  if (!options.key_file.empty()) {
    auto loaded = Key::load_or_create(options.key_file, machine.random);
    if (!loaded) {
      return loaded.error();
    }
    key = *loaded;
  }
  // Without a key, redactions can be followed within one writer's chain and no further.
  Key::Bytes salt{};
  machine.random.fill(salt);
  std::unique_ptr<Log> log(
      new Log(options, machine, std::move(*folder), key, key ? *key : Key(salt)));
  if (auto status = log->take_chain(); !status) {
    return status.error();
  }
  if (auto status = log->begin_segment(); !status) {
    ::unlinkat(log->folder_.get(), head_file(log->chain_).c_str(), 0);
    return status.error();
  }
  return log;
}

/// The head's file is there before the first line, and its name is the chain's lock.
Status Log::take_chain() {
  const std::string base = boot_name(machine_.random) + "-" + std::to_string(::getpid());
  for (int writer = 1; writer <= kMaxWritersOfPid; ++writer) {
    chain_ = writer == 1 ? base : base + "." + std::to_string(writer);
    now_.head = committed_.head = Head{chain_};
    const Status taken =
        create_file_once({folder_.get(), head_file(chain_)},
                         render_head(committed_.head, key_ ? &*key_ : nullptr), machine_.random);
    if (taken || taken.error().code != ErrorCode::kConflict) {
      return taken;
    }
  }
  return Error{ErrorCode::kResourceExhausted,
               "the audit folder has " + std::to_string(kMaxWritersOfPid) +
                   " chains of this process id; remove old ones, or set a retention"};
}

std::vector<Head> Log::heads_of_others() const {
  const auto chains = list_chains(folder_.get());
  std::vector<std::pair<std::int64_t, std::string>> files;
  for (const auto& [name, chain] : chains ? *chains : std::map<std::string, ChainFiles>()) {
    if (chain.has_head && name != chain_) {
      files.emplace_back(-changed_at(folder_.get(), head_file(name)), name);
    }
  }
  std::ranges::sort(files);
  files.resize(std::min(files.size(), kMaxSeen));
  std::vector<Head> heads;
  for (const auto& [age, name] : files) {
    const auto text = read_small_file({folder_.get(), head_file(name)}, kMaxHeadBytes);
    auto head = text ? parse_head(*text, key_ ? &*key_ : nullptr) : Result<Head>(text.error());
    if (head && head->chain == name && head->seq > 0) {
      heads.push_back(std::move(*head));
    }
  }
  return heads;
}

Opening Log::opening(std::uint64_t segment) const {
  Opening opening{chain_, segment - 1, committed_.head.hash, committed_.lines_in_segment};
  if (segment == 1) {
    opening.seen = heads_of_others();
  }
  return opening;
}

Status Log::begin_segment() {
  const std::uint64_t segment = committed_.head.segment + 1;
  const Opening first_line = opening(segment);
  const Place place{folder_.get(), segment_file(chain_, segment)};
  auto file = SegmentFile::create(place);
  if (!file) {
    // The name is ours alone: what an attempt before this one left there has no line that counts.
    if (file.error().code == ErrorCode::kConflict) {
      ::unlinkat(place.folder, place.name.c_str(), 0);
    }
    return file.error();
  }
  file_ = std::move(*file);
  now_ = committed_;
  now_.head.segment = segment;
  now_.lines_in_segment = 0;
  now_.size = 0;
  day_ = day_of(machine_.clock.now());
  Status begun = write_own_line(render_opening(first_line));
  if (begun) {
    begun = commit();
  }
  if (!begun) {
    file_.reset();
    now_ = committed_;
    ::unlinkat(place.folder, place.name.c_str(), 0);
    return begun;
  }
  return retire();
}

Status Log::append(const Entry& entry) {
  if (auto room = make_room(entry); !room) {
    return room;
  }
  if (auto written = write_line(entry); !written) {
    return undone(written);
  }
  ++now_.entries;
  return {};
}

Status Log::make_room(const Entry& entry) {
  if (auto cut = cut_rest(); !cut) {
    return cut;
  }
  // The seal must fit as well.
  const bool full =
      file_ && now_.size + entry.fields.size() + 2 * kMaxHeadBytes > options_.max_segment_bytes;
  if (full || (file_ && day_ != day_of(machine_.clock.now()))) {
    if (auto sealed = seal(); !sealed) {
      return sealed;
    }
  }
  return file_ ? Status() : begin_segment();
}

Status Log::write_line(const Entry& entry) {
  const Stamp stamp{now_.head.seq + 1,
                    to_rfc3339(entry.time),
                    static_cast<std::uint64_t>(entry.ticks.count()),
                    now_.head.segment,
                    entry.lost,
                    now_.head.hash};
  const std::string body = render_body(stamp, entry.fields);
  const std::string hash = chain_hash(now_.head.hash, body);
  const std::string line = close_line(body, hash);
  if (line.size() > kMaxLineBytes) {
    return Error{ErrorCode::kTooLarge, "an audit record is too large"};
  }
  if (auto written = file_->append(line); !written) {
    return written;
  }
  now_.head.seq = stamp.seq;
  now_.head.hash = hash;
  now_.size += line.size();
  ++now_.lines_in_segment;
  return {};
}

Status Log::write_own_line(std::string fields) {
  return write_line({std::move(fields), machine_.clock.now(), machine_.ticks.now()});
}

Status Log::commit() {
  if (!file_ || now_.head == committed_.head) {
    return {};
  }
  if (auto synced = file_->sync(); !synced) {
    return undone(synced);
  }
  if (auto written = write_head(); !written) {
    return undone(written);
  }
  committed_ = now_;
  return {};
}

Status Log::write_head() {
  return replace_file({folder_.get(), head_file(chain_)},
                      render_head(now_.head, key_ ? &*key_ : nullptr));
}

Status Log::seal() {
  if (!file_) {
    return {};
  }
  Status sealed = write_own_line(render_sealing({now_.lines_in_segment + 1, now_.head.hash}));
  if (!sealed) {
    return undone(sealed);
  }
  sealed = commit();
  if (sealed) {
    file_.reset();
  }
  return sealed;
}

/// Back to the last commit.
Status Log::undone(Status problem) {
  // A new segment, which no head names yet, is removed by who began it.
  has_rest_ = file_ && now_.head.segment == committed_.head.segment;
  now_ = committed_;
  // What cannot be cut off now is cut off before the next line.
  static_cast<void>(cut_rest());
  return problem;
}

Status Log::cut_rest() {
  if (!has_rest_) {
    return {};
  }
  Status cut = file_->cut(committed_.size);
  has_rest_ = !cut;
  return cut;
}

Status Log::retire() {
  if (options_.retention.count() == 0) {
    return {};
  }
  const auto old = retirable(folder_.get(), machine_.clock.now() - options_.retention);
  if (!old || old->empty()) {
    return old ? Status() : Status(old.error());
  }
  for (const Retirement& one : *old) {
    if (auto written = write_own_line(render_retirement(one)); !written) {
      return undone(written);
    }
  }
  // Named on the disk before they go: a crash in between leaves files too many, and no gap.
  if (auto committed = commit(); !committed) {
    return committed;
  }
  remove_retired(folder_.get(), *old);
  return {};
}

}  // namespace sandboxkit::audit
