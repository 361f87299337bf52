#include "work/ledger.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::work {

Status Ledger::load() {
  auto rows = journal_.all();
  if (!rows) {
    return rows.error();
  }
  rows_.with([&](auto& map) {
    for (store::JournalRow& row : *rows) {
      std::string key = row.sandbox;
      map.insert_or_assign(std::move(key), std::move(row));
    }
  });
  return {};
}

std::optional<store::JournalRow> Ledger::get(const std::string& sandbox) const {
  return rows_.with([&](const auto& map) {
    const auto found = map.find(sandbox);
    return found == map.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<store::JournalRow> Ledger::all() const {
  return rows_.with([](const auto& map) {
    std::vector<store::JournalRow> rows;
    rows.reserve(map.size());
    for (const auto& entry : map) {
      rows.push_back(entry.second);
    }
    return rows;
  });
}

Status Ledger::put(const store::JournalRow& row) {
  if (auto written = journal_.put(row); !written) {
    return written;
  }
  rows_.with([&](auto& map) { map.insert_or_assign(row.sandbox, row); });
  return {};
}

Status Ledger::erase(const std::string& sandbox) {
  if (auto erased = journal_.erase(sandbox); !erased) {
    return erased;
  }
  rows_.with([&](auto& map) { map.erase(sandbox); });
  return {};
}

std::int64_t Ledger::live() const {
  return rows_.with([](const auto& map) {
    return std::ranges::count_if(map,
                                 [](const auto& entry) { return entry.second.state != kEnded; });
  });
}

}  // namespace sandboxkit::work
