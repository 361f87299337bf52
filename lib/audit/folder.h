#pragma once

#include "audit/walk.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::audit {

/// A folder with more files is not read.
inline constexpr std::size_t kMaxFiles = 100'000;
inline constexpr std::size_t kMaxHeadBytes = 1024;

/// The log's files in a folder; what has another name is passed over.
struct ChainFiles {
  bool has_head = false;
  std::vector<std::uint64_t> segments{};  ///< In order.
};
Result<std::map<std::string, ChainFiles>> list_chains(int folder);

/// Calls `take` with each piece of a file from `offset` on; it returns false to stop.
Status read_pieces(int folder, const std::string& file, std::uint64_t offset,
                   const std::function<bool(std::string_view)>& take);

/// Walks every chain of a log's folder, also while it is written; changes nothing. With a key, the
/// heads' signatures must hold.
///
/// Errors: kNotFound when there is no such folder, kInvalidArgument when no log lies in it, and
/// what the system says. Blocking: reads the whole log from the disk, twice when something is
/// wrong: what retention removes meanwhile is no break.
Result<FolderCheck> verify_folder(const std::string& path, const Key* key);

}  // namespace sandboxkit::audit
