#include "audit/retire.h"

#include "audit/files.h"
#include "audit/folder.h"
#include "base/text.h"

#include <algorithm>
#include <optional>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::audit {
namespace {

/// The seal that a segment ends with.
std::optional<ParsedLine> seal_of(int folder, const std::string& file) {
  struct stat facts {};
  const auto open = open_to_read({folder, file});
  if (!open || ::fstat(open->get(), &facts) != 0) {
    return std::nullopt;
  }
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  std::string tail(std::min<std::uint64_t>(size, kMaxLineBytes), '\0');
  const auto from = static_cast<off_t>(size - tail.size());
  if (::pread(open->get(), tail.data(), tail.size(), from) != static_cast<ssize_t>(tail.size()) ||
      !tail.ends_with('\n')) {
    return std::nullopt;
  }
  tail.pop_back();
  const std::size_t before = tail.rfind('\n');
  auto line = parse_line(std::string_view(tail).substr(before == tail.npos ? 0 : before + 1));
  return line && sealing_of(*line) ? std::optional(std::move(*line)) : std::nullopt;
}

/// The head says that it is on the disk, whole.
bool is_behind_head(const Head& head, std::uint64_t segment, const ParsedLine& seal) {
  return head.segment > segment || (head.segment == segment && head.hash == seal.hash);
}

void add_chain(int folder, const std::string& chain, const ChainFiles& files, WallTime before,
               std::vector<Retirement>& found) {
  const auto text = read_small_file({folder, head_file(chain)}, kMaxHeadBytes);
  const auto head = text ? parse_head(*text, nullptr) : Result<Head>(text.error());
  for (const std::uint64_t number : files.segments) {
    const auto seal = head && found.size() < kMaxRetiredAtOnce
                          ? seal_of(folder, segment_file(chain, number))
                          : std::nullopt;
    const auto time = seal ? parse_rfc3339(seal->stamp.time) : std::nullopt;
    if (!time || *time >= before || !is_behind_head(*head, number, *seal)) {
      return;
    }
    found.push_back({chain, number, sealing_of(*seal)->count, seal->hash});
  }
}

}  // namespace

Result<std::vector<Retirement>> retirable(int folder, WallTime before) {
  const auto chains = list_chains(folder);
  if (!chains) {
    return chains.error();
  }
  std::vector<Retirement> found;
  for (const auto& [chain, files] : *chains) {
    add_chain(folder, chain, files, before, found);
  }
  return found;
}

void remove_retired(int folder, const std::vector<Retirement>& retired) {
  for (const Retirement& one : retired) {
    ::unlinkat(folder, segment_file(one.chain, one.segment).c_str(), 0);
  }
  const auto left = list_chains(folder);
  for (const Retirement& one : retired) {
    const auto chain =
        left ? left->find(one.chain) : std::map<std::string, ChainFiles>::const_iterator();
    if (left && chain != left->end() && chain->second.segments.empty()) {
      ::unlinkat(folder, head_file(one.chain).c_str(), 0);
    }
  }
  ::fsync(folder);
}

}  // namespace sandboxkit::audit
