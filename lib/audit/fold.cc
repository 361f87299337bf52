#include "audit/fold.h"

namespace sandboxkit::audit {

bool Fold::take(const std::string& what, Time now) {
  if (const auto open = open_.find(what); open != open_.end()) {
    // A second that is over but was not asked for yet still counts: its line tells of it soon.
    ++open->second.more;
    return true;
  }
  if (open_.size() < kMaxFolded && what.size() <= kMaxFoldedBytes) {
    order_.push_back(open_.emplace(what, Open{now + kWindow}).first);
  }
  return false;
}

std::vector<Fold::Repeats> Fold::due(Time now) {
  std::vector<Repeats> over;
  while (!order_.empty() && order_.front()->second.until <= now) {
    const auto first = order_.front();
    if (first->second.more > 0) {
      over.push_back({first->first, first->second.more});
    }
    open_.erase(first);
    order_.pop_front();
  }
  return over;
}

std::vector<Fold::Repeats> Fold::drain() { return due(Time::max()); }

std::optional<Fold::Time> Fold::next() const {
  return order_.empty() ? std::nullopt : std::optional(order_.front()->second.until);
}

}  // namespace sandboxkit::audit
