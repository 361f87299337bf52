#pragma once

#include "audit/line.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::audit {

/// What a walk along one writer's chain found.
struct ChainCheck {
  std::string chain{};
  std::uint64_t records = 0;     ///< Read up to the end or the first break.
  Head last{};                   ///< The last record that holds.
  std::uint64_t after_head = 0;  ///< Records that no head names: written since, or added.
  bool torn = false;             ///< Ends in the middle of a line, behind the head: a crash.
  std::uint64_t bad_seq = 0;     ///< The first record that does not hold; only with `problem`.
  std::string problem{};         ///< How it is broken; empty: it is intact.
  bool intact() const { return problem.empty(); }

  /// For the folder's check: a head without any segment, which is fine when all were retired.
  std::optional<Head> vanished{};
  std::uint64_t first_segment = 0;
  std::optional<Opening> first_opening{};
  std::vector<Retirement> retired{};
};

/// Walks the bytes of one chain's segments, in their order, and keeps the first break. Pure; holds
/// one line at most.
class ChainWalk {
 public:
  /// Without a head nothing shows whether the end was cut off; it is a break by itself.
  ChainWalk(std::string chain, std::optional<Head> head);

  void begin_segment(std::uint64_t number);
  /// The segment's bytes, in pieces of any size.
  void take(std::string_view bytes);
  /// Once; the check is complete then.
  ChainCheck finish();

 private:
  void take_line(std::string_view line);
  void take_open(const ParsedLine& line);
  void check_link(const ParsedLine& line);
  void break_at(std::uint64_t seq, std::string problem);
  std::uint64_t expected() const { return check_.last.seq + 1; }

  ChainCheck check_;
  std::optional<Head> head_;
  std::string partial_;
  std::uint64_t segment_ = 0;
  std::uint64_t lines_in_segment_ = 0;
  std::uint64_t lines_before_ = 0;
  bool sealed_ = false;
};

/// What all chains of a folder came to.
struct FolderCheck {
  std::uint64_t chains = 0;
  std::uint64_t records = 0;
  std::uint64_t after_head = 0;
  std::uint64_t torn = 0;
  bool keyed = false;
  std::vector<Head> heads{};  ///< The last record of each chain: worth copying elsewhere.
  std::string chain{};        ///< Where it is broken; only with `problem`.
  std::uint64_t bad_seq = 0;
  std::string problem{};
  bool intact() const { return problem.empty(); }
};

/// Judges what only several chains together show: beginnings that are gone must have been retired,
/// and what one writer saw of another must still be there. Pure.
FolderCheck judge_folder(const std::vector<ChainCheck>& chains, bool keyed);

}  // namespace sandboxkit::audit
