#include "sandboxkit/grant_store.h"

#include "agent/grant_file.h"
#include "agent/state_folder.h"
#include "audit/key.h"
#include "base/random.h"
#include "base/text.h"
#include "gate/path_text.h"
#include "io/fd.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

constexpr const char* kFile = "grants.json";
constexpr const char* kPending = "grants.json.new";
constexpr const char* kLock = "grants.lock";
constexpr const char* kKey = "grants.key";
constexpr std::size_t kIdChars = 20;
constexpr std::size_t kMaxNoteBytes = 1024;
/// What a change of everything is noted under.
constexpr const char* kEveryGrant = "*";

Error wrong(const char* field, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, std::string(field) + " " + what, {}, field};
}

bool is_text(std::string_view text) {
  return is_utf8(text) && text.find('\0') == std::string_view::npos;
}

/// What a file of JSON could not hold as it is.
Status check_texts(const NewGrant& grant) {
  const std::pair<const char*, const std::string&> texts[] = {
      {"target", grant.use.target}, {"tree", grant.tree}, {"agent", grant.agent}, {"by", grant.by},
      {"request", grant.request},
  };
  for (const auto& [field, text] : texts) {
    if (!is_text(text) || text.size() > gate::kMaxPathBytes) {
      return wrong(field, "must be UTF-8 without NUL, of at most " +
                              std::to_string(gate::kMaxPathBytes) + " bytes");
    }
  }
  if (!is_text(grant.note) || grant.note.size() > kMaxNoteBytes) {
    return wrong("note", "must be UTF-8 of at most " + std::to_string(kMaxNoteBytes) + " bytes");
  }
  if (!std::ranges::all_of(grant.use.argv, is_text)) {
    return wrong("argv", "must be words in UTF-8 without NUL");
  }
  return {};
}

Status check_scope(const NewGrant& grant) {
  if (!gate::is_plain_absolute(grant.tree) || grant.tree_identity == FileIdentity{}) {
    return wrong("tree", quoted(grant.tree) + " must be an absolute, plain path of a directory");
  }
  if (grant.agent.empty()) {
    return wrong("agent", "must be named: a grant is for one agent");
  }
  if (grant.life && (*grant.life < std::chrono::hours(1) || *grant.life > kMaxGrantLife)) {
    return wrong("life", "must be an hour at least and " +
                             std::to_string(kMaxGrantLife.count() / 24) + " days at most");
  }
  return {};
}

KeptGrant kept_grant(NewGrant given, WallTime now) {
  PermanentGrant grant{.id = "g_" + system_random().text(kIdChars, kBase36),
                       .use = std::move(given.use),
                       .tree = std::move(given.tree),
                       .tree_identity = given.tree_identity,
                       .agent = std::move(given.agent),
                       .needs_box = given.needs_box,
                       .expires = {}};
  if (given.life) {
    grant.expires = now + *given.life;
  }
  return {.grant = std::move(grant),
          .created = now,
          .by = std::move(given.by),
          .request = std::move(given.request),
          .note = std::move(given.note)};
}

}  // namespace

struct GrantStore::Impl {
  Impl(io::Fd opened, std::string path, GrantAudit& noted_by, const Clock& time)
      : folder(std::move(opened)),
        key_file(std::move(path) + "/" + kKey),
        audit(noted_by),
        clock(time) {}

  /// Of the file and of its key.
  using Stamps = std::pair<std::optional<agent::FileStamp>, std::optional<agent::FileStamp>>;

  const io::Fd folder;
  const std::string key_file;
  GrantAudit& audit;
  const Clock& clock;

  /// One reads at a time, so that what is read later is never taken for older.
  std::mutex reading;
  std::optional<Stamps> stamps{};
  /// The newest generation that this process knows of: an older file was put back.
  std::uint64_t known = 0;
  GrantsView view{.grants = std::make_shared<const KeptGrants>()};

  Result<KeptGrants> load(const char* name) const {
    const auto text = agent::read_private_file(folder.get(), name, kMaxGrantsBytes);
    if (!text) {
      return text.error();
    }
    const auto key = audit::Key::load(key_file);
    if (!key) {
      return agent::grants_ignored("key", key.error().message);
    }
    return agent::open_grants(*text, *key);
  }

  /// The file if it counts; what is older than what is known was put back.
  Result<KeptGrants> load_current() const {
    auto loaded = load(kFile);
    const bool absent = !loaded && loaded.error().code == ErrorCode::kNotFound;
    if (absent && known == 0) {
      return KeptGrants{};
    }
    if (absent || (loaded && loaded->generation < known)) {
      const std::string is =
          absent ? "it is gone" : "it is of generation " + std::to_string(loaded->generation);
      return agent::grants_ignored("generation",
                                   is + ", and the last change made " + std::to_string(known) +
                                       ": an older file was put back, or this one was removed");
    }
    return loaded;
  }

  void take(const Result<KeptGrants>& loaded) {
    if (loaded) {
      known = loaded->generation;
      view = {.grants = std::make_shared<const KeptGrants>(*loaded)};
      return;
    }
    view.problem = loaded.error();
    // Gone or put back: what this process saw may be what somebody took back.
    if (loaded.error().field == "generation") {
      view.grants = std::make_shared<const KeptGrants>();
    }
  }

  GrantsView read() {
    const std::lock_guard lock(reading);
    // Their facts first: what is replaced meanwhile is read once more by the next call.
    const Stamps now{agent::stamp_of(folder.get(), kFile), agent::stamp_of(folder.get(), kKey)};
    if (stamps != now) {
      take(load_current());
      stamps = now;
    }
    return view;
  }

  Status sync_folder() const {
    return ::fsync(folder.get()) == 0 ? Status()
                                      : Status(io::error_from_errno("the gate's folder", errno));
  }

  /// Puts the new file in place of the old one.
  Status replace() const {
    if (::renameat(folder.get(), kPending, folder.get(), kFile) != 0) {
      return io::error_from_errno("grants.json", errno);
    }
    return sync_folder();
  }

  /// After a process was killed in a change: what was noted happens, what was not did not. Under
  /// the lock.
  Status settle() {
    if (!agent::stamp_of(folder.get(), kPending)) {
      return {};
    }
    const auto last = audit.last_generation();
    if (!last) {
      return last.error();
    }
    const auto pending = load(kPending);
    const auto current = load(kFile);
    const std::uint64_t before = current ? current->generation : 0;
    if (pending && pending->generation == *last && *last > before) {
      return replace();
    }
    return ::unlinkat(folder.get(), kPending, 0) == 0
               ? Status()
               : Status(io::error_from_errno(kPending, errno));
  }

  Status make_change(const KeptGrants& after, const std::vector<GrantChange>& changes) {
    const auto key = audit::Key::load_or_create(key_file, system_random());
    if (!key) {
      return key.error();
    }
    const std::string text = agent::sign_grants(after, *key);
    if (text.size() > kMaxGrantsBytes) {
      return Error{ErrorCode::kTooLarge, "the grants would have more than " +
                                             std::to_string(kMaxGrantsBytes) +
                                             " bytes; take some back with `sandboxkit grant rm`"};
    }
    Status done = agent::write_private_file(folder.get(), kPending, text);
    for (auto change = changes.begin(); done && change != changes.end(); ++change) {
      done = audit.note(*change);
    }
    if (!done) {
      ::unlinkat(folder.get(), kPending, 0);
      return done;
    }
    if (auto status = replace(); !status) {
      return Error{ErrorCode::kUnavailable,
                   "the change is noted and not in force yet: " + status.error().message +
                       "; the store's next use finishes it",
                   "grant_pending"};
    }
    return {};
  }
};

GrantStore::GrantStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrantStore::~GrantStore() = default;

Result<std::unique_ptr<GrantStore>> GrantStore::open(const Options& options, GrantAudit& audit,
                                                     const Clock& clock) {
  auto folder = agent::open_state_folder(options.folder, options.roots);
  if (!folder) {
    return folder.error();
  }
  auto impl = std::make_unique<Impl>(std::move(*folder), options.folder, audit, clock);
  const auto lock = agent::lock_file(impl->folder.get(), kLock);
  if (!lock) {
    return lock.error();
  }
  if (auto settled = impl->settle(); !settled) {
    return settled.error();
  }
  const auto last = audit.last_generation();
  if (!last) {
    return last.error();
  }
  impl->known = *last;
  return std::unique_ptr<GrantStore>(new GrantStore(std::move(impl)));
}

GrantsView GrantStore::read() const { return impl_->read(); }

Result<KeptGrant> GrantStore::add(const PermissionGate& gate, NewGrant grant) {
  for (const Status& checked :
       {gate.check_new(grant.use), check_texts(grant), check_scope(grant)}) {
    if (!checked) {
      return checked.error();
    }
  }
  const auto lock = agent::lock_file(impl_->folder.get(), kLock);
  if (!lock) {
    return lock.error();
  }
  if (auto settled = impl_->settle(); !settled) {
    return settled.error();
  }
  const GrantsView before = impl_->read();
  if (before.problem) {
    return *before.problem;
  }
  if (before.grants->grants.size() >= kMaxKeptGrants) {
    return Error{ErrorCode::kResourceExhausted,
                 "there are " + std::to_string(kMaxKeptGrants) +
                     " grants already; take some back with `sandboxkit grant rm`",
                 "too_many_grants"};
  }
  KeptGrants after = *before.grants;
  after.generation += 1;
  const KeptGrant made = kept_grant(std::move(grant), impl_->clock.now());
  after.grants.push_back(made);
  if (auto status =
          impl_->make_change(after, {{GrantChange::Kind::kGrant, after.generation, made, made.by}});
      !status) {
    return status.error();
  }
  return made;
}

Status GrantStore::remove(std::span<const std::string> ids, const std::string& by) {
  const auto lock = agent::lock_file(impl_->folder.get(), kLock);
  if (!lock) {
    return lock.error();
  }
  if (auto settled = impl_->settle(); !settled) {
    return settled;
  }
  const GrantsView before = impl_->read();
  if (before.problem) {
    return *before.problem;
  }
  KeptGrants after = *before.grants;
  after.generation += 1;
  std::vector<GrantChange> changes;
  for (const std::string& id : ids) {
    const auto found =
        std::ranges::find(after.grants, id, [](const KeptGrant& kept) { return kept.grant.id; });
    if (found == after.grants.end()) {
      return Error{ErrorCode::kNotFound, "there is no grant " + quoted(id), {}, "id"};
    }
    changes.push_back({GrantChange::Kind::kRevoke, after.generation, *found, by});
    after.grants.erase(found);
  }
  return changes.empty() ? Status() : impl_->make_change(after, changes);
}

Status GrantStore::remove_all(const std::string& by) {
  const auto lock = agent::lock_file(impl_->folder.get(), kLock);
  if (!lock) {
    return lock.error();
  }
  if (auto settled = impl_->settle(); !settled) {
    return settled;
  }
  // Whatever stands in the file, a generation that nobody knows yet.
  const GrantsView before = impl_->read();
  const auto last = impl_->audit.last_generation();
  if (!last) {
    return last.error();
  }
  const KeptGrants after{.generation =
                             std::max({before.grants->generation, impl_->known, *last}) + 1};
  KeptGrant every{.grant = {.id = kEveryGrant,
                            .use = {},
                            .tree = {},
                            .tree_identity = {},
                            .agent = {},
                            .needs_box = false,
                            .expires = {}}};
  return impl_->make_change(after,
                            {{GrantChange::Kind::kRevoke, after.generation, std::move(every), by}});
}

const char* name_of(GrantState state) {
  switch (state) {
    case GrantState::kActive:
      return "active";
    case GrantState::kExpired:
      return "expired";
    case GrantState::kStale:
      return "stale";
  }
  return "stale";
}

GrantState state_of(const PermanentGrant& grant, const FileEyes& eyes, WallTime now) {
  if (grant.expires && *grant.expires <= now) {
    return GrantState::kExpired;
  }
  const auto tree = eyes.look({.cwd = "/", .path = grant.tree});
  const bool is_there = tree && tree->file && tree->file->type == FileType::kDirectory &&
                        tree->canonical == grant.tree &&
                        tree->file->identity == grant.tree_identity;
  return is_there ? GrantState::kActive : GrantState::kStale;
}

}  // namespace sandboxkit
