#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::policy {

/// Counts nothing. A test passes a meter that does, to prove what a look-up costs.
struct NoMeter {
  void hashed_byte() {}
  void looked_up() {}
  void compared(std::size_t /*bytes*/) {}
};

/// FNV-1a, a byte at a time.
struct NameHash {
  static constexpr std::uint64_t kOfNothing = 0xcbf29ce484222325;
  static std::uint64_t with(std::uint64_t hash, char c) {
    constexpr std::uint64_t kPrime = 0x100000001b3;
    return (hash ^ static_cast<unsigned char>(c)) * kPrime;
  }
};

/// The names of a policy's entries, found by the ends of a host.
///
/// Work for one host: at most one pass over its bytes, which ends at the length of the longest
/// entry; one look-up for each label of that part; bytes are compared only where the hashes agree.
template <typename Hash = NameHash>
class NameTable {
 public:
  /// `below`: the entry is `*.name`. `entry` is what `visit` hands back.
  void add(std::string_view name, bool below, std::size_t entry) {
    std::uint64_t hash = Hash::kOfNothing;
    for (std::size_t at = name.size(); at > 0; --at) {
      hash = Hash::with(hash, name[at - 1]);
    }
    longest_ = std::max(longest_, name.size());
    auto row = std::ranges::lower_bound(rows_, hash, {}, &Row::hash);
    for (; row != rows_.end() && row->hash == hash; ++row) {
      if (row->below == below && row->name == name) {
        return row->entries.push_back(entry);
      }
    }
    rows_.insert(row, {hash, std::string(name), below, {entry}});
  }

  /// Calls `visit(entries)` for each name that speaks of `host`, with the entries in the order in
  /// which they were added: the farthest `*.` first, the host's own name last.
  template <typename Visit, typename Meter>
  void visit(std::string_view host, const Visit& visit, Meter& meter) const {
    std::uint64_t hash = Hash::kOfNothing;
    const std::size_t last = host.size() - std::min(host.size(), longest_);
    for (std::size_t at = host.size(); at > last;) {
      --at;
      hash = Hash::with(hash, host[at]);
      meter.hashed_byte();
      if (at != 0 && host[at - 1] != '.') {
        continue;
      }
      meter.looked_up();
      const bool below = at != 0;
      auto row = std::ranges::lower_bound(rows_, hash, {}, &Row::hash);
      for (; row != rows_.end() && row->hash == hash; ++row) {
        meter.compared(row->name.size());
        if (row->below == below && row->name == host.substr(at)) {
          visit(row->entries);
        }
      }
    }
  }

 private:
  struct Row {
    std::uint64_t hash;
    std::string name;
    bool below;
    std::vector<std::size_t> entries;
  };

  // Hashed from the last byte to the first, so that each label costs its own bytes only. A host
  // that was made to collide costs a comparison with rows that are the owner's and few.
  std::vector<Row> rows_;  // by hash
  std::size_t longest_ = 0;
};

}  // namespace sandboxkit::policy
