#include "audit/walk.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::audit {
namespace {

std::string records_are_missing(std::uint64_t first, std::uint64_t last) {
  return first == last
             ? "record " + std::to_string(first) + " is missing"
             : "records " + std::to_string(first) + " to " + std::to_string(last) + " are missing";
}

std::string segment_is_missing(std::uint64_t number) {
  return "segment " + std::to_string(number) + " is missing";
}

}  // namespace

ChainWalk::ChainWalk(std::string chain, std::optional<Head> head) : head_(std::move(head)) {
  check_.chain = check_.last.chain = std::move(chain);
  if (!head_) {
    break_at(0, "it has no head file, so its end may be cut off");
  } else if (head_->chain != check_.chain) {
    break_at(0, "its head file is that of another chain");
  }
}

void ChainWalk::begin_segment(std::uint64_t number) {
  if (check_.first_segment == 0) {
    check_.first_segment = number;
  } else if (number != segment_ + 1) {
    break_at(expected(), segment_is_missing(segment_ + 1));
  } else if (!partial_.empty()) {
    break_at(expected(), "segment " + std::to_string(segment_) + " ends within a line");
  } else if (!sealed_) {
    break_at(expected(), "segment " + std::to_string(segment_) + " ends without its seal");
  }
  segment_ = number;
  lines_before_ = std::exchange(lines_in_segment_, 0);
  sealed_ = false;
}

void ChainWalk::take(std::string_view bytes) {
  while (check_.intact() && !bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t length = std::min(end, bytes.size());
    if (partial_.size() + length >= kMaxLineBytes) {
      break_at(expected(), "it is longer than a line may be");
      return;
    }
    partial_ += bytes.substr(0, length);
    if (end == bytes.npos) {
      return;
    }
    const std::string line = std::exchange(partial_, {});
    take_line(line);
    bytes.remove_prefix(end + 1);
  }
}

void ChainWalk::take_line(std::string_view text) {
  const auto line = parse_line(text);
  if (!line) {
    break_at(expected(), line.error().message);
    return;
  }
  if (lines_in_segment_ == 0) {
    take_open(*line);
  } else if (line->kind == kOpen) {
    break_at(expected(), "it opens a segment in the middle of one");
  }
  if (check_.intact()) {
    check_link(*line);
  }
  if (!check_.intact()) {
    return;
  }
  ++lines_in_segment_;
  ++check_.records;
  check_.last = {check_.chain, segment_, line->stamp.seq, line->hash};
  if (line->kind == kSeal) {
    const auto sealing = sealing_of(*line);
    sealed_ = true;
    if (!sealing || sealing->count != lines_in_segment_ || sealing->head != line->stamp.previous) {
      break_at(line->stamp.seq, "it seals another segment than the one it stands in");
    }
  } else if (line->kind == kRetire) {
    if (auto retirement = retirement_of(*line)) {
      check_.retired.push_back(std::move(*retirement));
    }
  }
}

void ChainWalk::take_open(const ParsedLine& line) {
  auto opening = opening_of(line);
  const bool first = check_.records == 0;
  if (!opening || opening->chain != check_.chain) {
    break_at(expected(), "it does not open a segment of this chain");
  } else if (opening->previous_segment + 1 != segment_ ||
             opening->previous_head != line.stamp.previous) {
    break_at(expected(), "it does not follow the segment before it");
  } else if (!first && opening->previous_count != lines_before_) {
    break_at(expected(), "the segment before it had another number of records");
  } else if (first) {
    // Where the beginning was retired, the chain goes on from what its first line says; the
    // folder's check wants to see the retirement.
    if (segment_ > 1 && head_->seq < line.stamp.seq) {
      break_at(line.stamp.seq, "the head stands before the beginning");
    }
    if (segment_ > 1) {
      check_.last.seq = line.stamp.seq - (line.stamp.seq > 0 ? 1 : 0);
      check_.last.hash = line.stamp.previous;
    }
    check_.first_opening = std::move(opening);
  }
}

void ChainWalk::check_link(const ParsedLine& line) {
  const std::uint64_t seq = line.stamp.seq;
  if (seq > expected()) {
    break_at(expected(), records_are_missing(expected(), seq - 1));
  } else if (seq < expected()) {
    break_at(expected(), "record " + std::to_string(seq) + " stands in its place");
  } else if (sealed_) {
    break_at(seq, "it stands behind the seal of its segment");
  } else if (line.stamp.segment != segment_) {
    break_at(seq, "it belongs to another segment");
  } else if (line.stamp.previous != check_.last.hash ||
             line.hash != chain_hash(check_.last.hash, line.body)) {
    break_at(seq, "its hash does not fit its content and the record before it");
  } else if (seq == head_->seq && (line.hash != head_->hash || segment_ != head_->segment)) {
    break_at(seq, "it is not the record that the head names");
  }
}

ChainCheck ChainWalk::finish() {
  check_.torn = !partial_.empty();
  if (check_.intact() && check_.first_segment == 0) {
    if (head_->seq > 0) {
      check_.vanished = head_;
    }
    return std::move(check_);
  }
  if (check_.intact() && check_.last.seq < head_->seq) {
    std::string problem = "truncated at " + std::to_string(check_.last.seq) +
                          ": the head names record " + std::to_string(head_->seq);
    if (head_->segment > segment_) {
      problem += "; " + segment_is_missing(segment_ + 1);
    }
    break_at(expected(), std::move(problem));
  }
  if (check_.intact()) {
    check_.after_head = check_.last.seq - head_->seq;
  }
  return std::move(check_);
}

void ChainWalk::break_at(std::uint64_t seq, std::string problem) {
  if (check_.intact()) {
    check_.bad_seq = seq;
    check_.problem = std::move(problem);
  }
}

namespace {

/// Everything that the intact chains say was removed on purpose, by chain and segment.
using Retired = std::map<std::pair<std::string, std::uint64_t>, Retirement>;

/// "" when the chain's missing beginning was retired by somebody.
std::string problem_of_beginning(const ChainCheck& chain, const Retired& retired) {
  if (chain.first_segment <= 1 || !chain.first_opening) {
    return {};
  }
  const Opening& opening = *chain.first_opening;
  const auto found = retired.find({chain.chain, opening.previous_segment});
  if (found == retired.end() || found->second.head != opening.previous_head ||
      found->second.count != opening.previous_count) {
    return segment_is_missing(opening.previous_segment) + ", and no record retires it";
  }
  return {};
}

/// "" when a chain of which the head alone is left was retired to its end.
std::string problem_of_end(const ChainCheck& chain, const Retired& retired) {
  if (!chain.vanished) {
    return {};
  }
  const auto found = retired.find({chain.chain, chain.vanished->segment});
  return found != retired.end() && found->second.head == chain.vanished->hash
             ? ""
             : "all of it is missing: the head names record " + std::to_string(chain.vanished->seq);
}

/// "" when what another writer saw of this chain is still there, or was retired.
std::string problem_of_sight(const Head& seen, const std::string& by, const ChainCheck* chain,
                             const Retired& retired) {
  if (seen.seq == 0) {
    return {};
  }
  const std::string witness = ", and chain " + by + " has seen record " + std::to_string(seen.seq);
  if (chain == nullptr || chain->vanished) {
    const auto found = retired.lower_bound({seen.chain, seen.segment});
    const bool gone_on_purpose = found != retired.end() && found->first.first == seen.chain;
    return gone_on_purpose ? "" : "all of it is missing" + witness;
  }
  if (chain->last.seq < seen.seq) {
    return "truncated at " + std::to_string(chain->last.seq) + witness;
  }
  if (chain->last.seq == seen.seq && chain->last.hash != seen.hash) {
    return "its last record was another one before" + std::string(witness);
  }
  return {};
}

void add_totals(const std::vector<ChainCheck>& chains, FolderCheck& check) {
  for (const ChainCheck& chain : chains) {
    check.records += chain.records;
    check.after_head += chain.after_head;
    check.torn += chain.torn ? 1 : 0;
    if (chain.last.seq > 0) {
      check.heads.push_back(chain.last);
    }
  }
}

void break_at(FolderCheck& check, const std::string& chain, std::uint64_t seq,
              std::string problem) {
  if (check.intact() && !problem.empty()) {
    check.chain = chain;
    check.bad_seq = seq;
    check.problem = std::move(problem);
  }
}

}  // namespace

FolderCheck judge_folder(const std::vector<ChainCheck>& chains, bool keyed) {
  FolderCheck check;
  check.chains = chains.size();
  check.keyed = keyed;
  add_totals(chains, check);
  Retired retired;
  std::map<std::string, const ChainCheck*> by_name;
  for (const ChainCheck& chain : chains) {
    break_at(check, chain.chain, chain.bad_seq, chain.problem);
    by_name.emplace(chain.chain, &chain);
    for (const Retirement& one : chain.retired) {
      retired.insert_or_assign({one.chain, one.segment}, one);
    }
  }
  for (const ChainCheck& chain : chains) {
    break_at(check, chain.chain, 1, problem_of_beginning(chain, retired));
    break_at(check, chain.chain, 1, problem_of_end(chain, retired));
    if (!chain.first_opening) {
      continue;
    }
    for (const Head& seen : chain.first_opening->seen) {
      const auto other = by_name.find(seen.chain);
      const ChainCheck* there = other != by_name.end() ? other->second : nullptr;
      break_at(check, seen.chain, there != nullptr ? there->last.seq + 1 : 1,
               problem_of_sight(seen, chain.chain, there, retired));
    }
  }
  return check;
}

}  // namespace sandboxkit::audit
