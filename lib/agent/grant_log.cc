#include "agent/grant_log.h"

#include "audit/files.h"
#include "audit/folder.h"
#include "audit/line.h"
#include "base/random.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::agent {
namespace {

constexpr const char* kFolder = "/audit";
constexpr const char* kKey = "/grants.key";

audit::Record record_of(const GrantChange& change) {
  const PermanentGrant& grant = change.grant.grant;
  audit::Record record;
  record.kind =
      change.kind == GrantChange::Kind::kGrant ? audit::Kind::kGrant : audit::Kind::kRevoke;
  record.agent = grant.agent;
  record.grant = grant.id;
  record.policy_generation = change.generation;
  record.source = grant.tree;
  record.by = change.by;
  record.request = change.grant.request;
  for (const GateOperation operation : grant.use.operations) {
    record.items.push_back(
        {.operation = name_of(operation), .requested = grant.use.target, .argv = grant.use.argv});
  }
  return record;
}

/// Finds changes among the lines of segments, which come in pieces.
class ChangeScan {
 public:
  explicit ChangeScan(std::uint64_t& last) : last_(last) {}

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      // More than a line may hold is none, whatever follows.
      if (partial_.size() < audit::kMaxLineBytes) {
        partial_.append(bytes.substr(0, std::min(end, audit::kMaxLineBytes)));
      }
      if (end == std::string_view::npos) {
        return;
      }
      take_line();
      partial_.clear();
      bytes.remove_prefix(end + 1);
    }
  }

 private:
  void take_line() {
    // Only a hint, and far faster than reading every line: inside of a text the quotes are escaped.
    if (partial_.find("\"kind\":\"grant\"") == std::string::npos &&
        partial_.find("\"kind\":\"revoke\"") == std::string::npos) {
      return;
    }
    const auto line = audit::parse_line(partial_ + "\n");
    if (line && (line->kind == name_of(audit::Kind::kGrant) ||
                 line->kind == name_of(audit::Kind::kRevoke))) {
      last_ = std::max(
          last_, static_cast<std::uint64_t>(std::max<std::int64_t>(0, line->value.integer("gen"))));
    }
  }

  std::uint64_t& last_;
  std::string partial_;
};

}  // namespace

audit::LogOptions audit_options(const std::string& state_folder) {
  return {.folder = state_folder + kFolder, .key_file = state_folder + kKey};
}

GrantLog::GrantLog(const std::string& state_folder) : state_folder_(state_folder) {}

GrantLog::GrantLog(const std::string& state_folder, audit::Writer& writer)
    : state_folder_(state_folder), writer_(&writer) {}

Result<audit::Writer*> GrantLog::writer() {
  const std::lock_guard lock(opening_);
  if (writer_ == nullptr) {
    auto opened = audit::Writer::open(audit_options(state_folder_),
                                      {system_clock(), audit::system_ticks(), system_random()});
    if (!opened) {
      return opened.error();
    }
    own_ = std::move(*opened);
    writer_ = own_.get();
  }
  return writer_;
}

Status GrantLog::note(const GrantChange& change) {
  const auto to = writer();
  return to ? (*to)->write(record_of(change)) : Status(to.error());
}

Result<std::uint64_t> GrantLog::last_generation() {
  const auto folder = audit::open_folder_to_read(state_folder_ + kFolder);
  if (!folder) {
    // No log yet: no change was noted.
    return folder.error().code == ErrorCode::kNotFound ? Result<std::uint64_t>(0U)
                                                       : Result<std::uint64_t>(folder.error());
  }
  const auto chains = audit::list_chains(folder->get());
  if (!chains) {
    return chains.error();
  }
  std::uint64_t last = 0;
  for (const auto& [name, files] : *chains) {
    for (const std::uint64_t number : files.segments) {
      ChangeScan scan(last);
      const Status read = audit::read_pieces(folder->get(), audit::segment_file(name, number), 0,
                                             [&](std::string_view piece) {
                                               scan.take(piece);
                                               return true;
                                             });
      // What retention removes meanwhile is old.
      if (!read && read.error().code != ErrorCode::kNotFound) {
        return read.error();
      }
    }
  }
  return last;
}

}  // namespace sandboxkit::agent
