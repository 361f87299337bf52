#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace sandboxkit::policy {

/// A sorted list in blocks of a bounded size, each with a summary of its entries, so that a search
/// passes whole blocks over and a change moves the entries of one block only.
///
/// `Before` is a strict total order. Where the blocks begin depends on the history of the list; the
/// order of the entries does not.
template <typename Entry, typename Before, typename Summary>
class BlockList {
 public:
  static constexpr std::size_t kMaxBlock = 128;

  struct Block {
    std::vector<Entry> entries;
    Summary summary;
  };

  const std::vector<Block>& blocks() const { return blocks_; }
  bool empty() const { return blocks_.empty(); }
  std::size_t size() const { return size_; }

  void insert(const Entry& entry) {
    if (blocks_.empty()) {
      blocks_.emplace_back();
    }
    Block& block = blocks_[block_of(entry)];
    block.entries.insert(place_in(block, entry), entry);
    block.summary.add(entry);
    ++size_;
    if (block.entries.size() > kMaxBlock) {
      split(block_of(entry));
    }
  }

  /// An entry that neither comes before nor after `entry` must be there.
  void erase(const Entry& entry) {
    const std::size_t at = block_of(entry);
    blocks_[at].entries.erase(place_in(blocks_[at], entry));
    --size_;
    if (blocks_[at].entries.empty()) {
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (!joined(at) && (at == 0 || !joined(at - 1))) {
      summarize(blocks_[at]);
    }
  }

  /// Puts `entry` in the place of the one that neither comes before nor after it.
  void replace(const Entry& entry) {
    Block& block = blocks_[block_of(entry)];
    *place_in(block, entry) = entry;
    summarize(block);
  }

 private:
  /// The last block that does not begin after `entry`, or the first one.
  std::size_t block_of(const Entry& entry) const {
    const auto after = std::partition_point(blocks_.begin(), blocks_.end(), [&](const Block& b) {
      return b.entries.empty() || !Before{}(entry, b.entries.front());
    });
    return after == blocks_.begin() ? 0 : static_cast<std::size_t>(after - blocks_.begin()) - 1;
  }

  static typename std::vector<Entry>::iterator place_in(Block& block, const Entry& entry) {
    return std::lower_bound(block.entries.begin(), block.entries.end(), entry, Before{});
  }

  static void summarize(Block& block) {
    block.summary = Summary{};
    for (const Entry& entry : block.entries) {
      block.summary.add(entry);
    }
  }

  void split(std::size_t at) {
    Block upper;
    auto& lower = blocks_[at].entries;
    const auto middle = lower.begin() + static_cast<std::ptrdiff_t>(lower.size() / 2);
    upper.entries.assign(middle, lower.end());
    lower.erase(middle, lower.end());
    summarize(blocks_[at]);
    summarize(upper);
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
  }

  /// Joins the block with the next one when both are small, so that blocks stay filled.
  bool joined(std::size_t at) {
    if (at + 1 >= blocks_.size() ||
        blocks_[at].entries.size() + blocks_[at + 1].entries.size() > kMaxBlock / 2) {
      return false;
    }
    auto& next = blocks_[at + 1].entries;
    blocks_[at].entries.insert(blocks_[at].entries.end(), next.begin(), next.end());
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    summarize(blocks_[at]);
    return true;
  }

  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

}  // namespace sandboxkit::policy
