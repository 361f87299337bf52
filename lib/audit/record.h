#pragma once

#include "audit/key.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::audit {

/// What a line tells of. `open`, `seal` and `retire` are the log's own and come from no caller.
enum class Kind : std::uint8_t {
  kDecision,
  kAsk,
  kAnswer,
  kGrant,
  kRevoke,
  kBoxStart,
  kBoxExit,
  kViolation,
  kPolicyLoad,
  kMode,
  kHint,  ///< What a box said of itself: whoever is in it may have made it up.
};
const char* name_of(Kind kind);

enum class Verdict : std::uint8_t { kNone, kDeny, kAsk, kAllow };
const char* name_of(Verdict verdict);

/// One operation and what it was aimed at, in the gate's words.
struct Item {
  std::string operation{};  ///< `read`, `exec`, `connect`, ...
  std::string requested{};  ///< As it was asked for.
  std::string canonical{};  ///< As it was judged.
  std::string to{};         ///< Of a rename, link or symlink.
  std::vector<std::string> argv{};
  std::optional<std::uint64_t> device{};
  std::optional<std::uint64_t> inode{};
};

struct Box {
  std::string id{};
  std::string backend{};
  std::string strength{};
};

/// What the gate has to say. Empty members are left out of the line. Never the contents of a file
/// nor the value of a variable: there is no member for them.
/// Source: design of the permission gate, section 6.
struct Record {
  Kind kind = Kind::kDecision;
  std::string session{};
  std::string agent{};
  std::string request{};
  std::vector<Item> items{};
  Verdict decision = Verdict::kNone;
  std::string branch{};
  std::string rule{};
  std::string source{};
  std::string reason{};
  std::optional<std::uint64_t> policy_generation{};
  std::string grant{};
  std::string mode{};
  Box box{};
  std::string by{};
  std::optional<std::uint64_t> duration_us{};
};

/// Sizes are those of the line: what is escaped counts as it is written.
inline constexpr std::size_t kMaxItems = 64;
inline constexpr std::size_t kMaxItemsBytes = 40 * 1024;
inline constexpr std::size_t kMaxPathBytes = 8 * 1024;
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxRuleBytes = 1024;
inline constexpr std::size_t kMaxArguments = 64;
inline constexpr std::size_t kMaxArgumentBytes = 1024;
inline constexpr std::size_t kMaxArgvBytes = 8 * 1024;
/// All members of one record together.
inline constexpr std::size_t kMaxFieldsBytes = 48 * 1024;

/// The part of a line that the record decides, without braces. Two records that differ in `which`
/// alone say the same.
struct Fields {
  std::string what{};   ///< `"kind":"decision",...`
  std::string which{};  ///< `,"req":...,"dur_us":...`, or empty.
};
/// Commands are redacted with `salt`. What does not fit is cut, and `"cut":true` says so; items
/// that do not fit are counted in `more_items`.
Fields render_fields(const Record& record, const Key& salt);

/// Whether the record has to be on the disk before its answer may be used: everything but an
/// allowed operation on files.
bool must_sync(const Record& record);
/// Whether equal ones may be counted instead of written: allowed and nothing but reads.
bool may_fold(const Record& record);

}  // namespace sandboxkit::audit
