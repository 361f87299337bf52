#include "egress/denied_log.h"

#include "base/text.h"

#include <utility>

namespace sandboxkit::egress {

void DeniedLog::add(const EgressTarget& target, std::string_view reason, WallTime now) {
  ++total_;
  std::string key = target.to_string() + " " + std::string(reason);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    ++entries_.front().count;
    entries_.front().last = now;
    return;
  }
  if (entries_.size() >= kMaxEntries) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
    ++dropped_;
  }
  entries_.push_front({key, target.host(), target.port(), std::string(reason), 1, now, now});
  by_key_.emplace(std::move(key), entries_.begin());
}

json::Value DeniedLog::to_json() const {
  json::Array rows;
  for (const Entry& entry : entries_) {
    rows.emplace_back(json::Object{{"host", entry.host},
                                   {"port", static_cast<int>(entry.port)},
                                   {"reason", entry.reason},
                                   {"count", static_cast<std::int64_t>(entry.count)},
                                   {"first", to_rfc3339(entry.first)},
                                   {"last", to_rfc3339(entry.last)}});
  }
  return json::Object{{"denied", std::move(rows)}};
}

}  // namespace sandboxkit::egress
