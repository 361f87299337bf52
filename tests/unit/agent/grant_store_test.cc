// Cases 11, 47 to 53 and 66 of the gate's design, and its bypasses B20 to B23 and B41, as far as
// the store of grants holds them.

#include "agent/grant_file.h"
#include "tests/unit/agent/grants_world.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>

using namespace sandboxkit;              // NOLINT(google-build-using-namespace)
using namespace sandboxkit::agent_test;  // NOLINT(google-build-using-namespace)
using gate_test::item;

namespace {

const std::string kGranted = "allow permanent_grant granted";
const std::string kAsked = "ask ask not_granted";

/// Notes in memory, and does what a test asks for before or after it.
class TestAudit final : public GrantAudit {
 public:
  std::vector<GrantChange> noted{};
  std::function<Status(const GrantChange&)> before = [](const GrantChange&) { return Status(); };

  Status note(const GrantChange& change) override {
    if (auto status = before(change); !status) {
      return status;
    }
    noted.push_back(change);
    return {};
  }
  Result<std::uint64_t> last_generation() override {
    return noted.empty() ? 0U : noted.back().generation;
  }
};

/// Where a process is killed in the middle of its change.
enum class KilledAt { kBeforeNote, kAfterNote };

class KillingAudit final : public GrantAudit {
 public:
  KillingAudit(GrantAudit& log, KilledAt at) : log_(log), at_(at) {}
  Status note(const GrantChange& change) override {
    if (at_ == KilledAt::kAfterNote && !log_.note(change)) {
      return Error{ErrorCode::kInternal, "the log failed"};
    }
    ::raise(SIGKILL);
    return {};
  }
  Result<std::uint64_t> last_generation() override { return log_.last_generation(); }

 private:
  GrantAudit& log_;
  KilledAt at_;
};

/// Runs `body` in a process of its own; returns how it ended.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("cases 47, 48 and 49: a grant from the store is for its operation, tree and agent") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  const auto read = item(Op::kRead, "/srv/data/x.csv");
  CHECK(world.told(*store, read) == kAsked);
  const KeptGrant made = world.add(*store);
  CHECK(made.grant.expires == gate_test::kNow + kGrantLife);
  CHECK(world.told(*store, read) == kGranted);
  CHECK(world.told(*world.open(audit), read) == kGranted);
  CHECK(world.told(*store, item(Op::kWrite, "/srv/data/x.csv")) == kAsked);
  NewGrant other = world.grant("/srv/other/**");
  other.tree = "/home/u/else";
  REQUIRE(store->add(world.gate(), other).has_value());
  NewGrant others = world.grant("/srv/other/**");
  others.agent = "aider";
  REQUIRE(store->add(world.gate(), others).has_value());
  CHECK(world.told(*store, item(Op::kRead, "/srv/other/x")) == kAsked);
}

TEST_CASE("case 50, B41: a grant does not outlive its tree, whatever takes the tree's name") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  const KeptGrant made = world.add(*store);
  CHECK(state_of(made.grant, world.question.eyes, gate_test::kNow) == GrantState::kActive);
  world.question.eyes.directory(gate_test::kTree);  // The same path, another directory.
  CHECK(state_of(made.grant, world.question.eyes, gate_test::kNow) == GrantState::kStale);
  CHECK(world.told(*store, item(Op::kRead, "/srv/data/x.csv")) == "ask ask grant_stale");
}

TEST_CASE("case 51: a grant ends, and only one that a person gave for good does not") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  NewGrant brief = world.grant();
  brief.life = std::chrono::hours(1);
  const auto ends = store->add(world.gate(), brief);
  REQUIRE(ends.has_value());
  const auto& eyes = world.question.eyes;
  CHECK(state_of(ends->grant, eyes, gate_test::kNow + std::chrono::minutes(59)) ==
        GrantState::kActive);
  CHECK(state_of(ends->grant, eyes, gate_test::kNow + std::chrono::hours(1)) ==
        GrantState::kExpired);
  NewGrant never = world.grant("/srv/more");
  never.life.reset();
  CHECK_FALSE(store->add(world.gate(), never)->grant.expires.has_value());
  for (const auto life : {std::chrono::hours(0), kMaxGrantLife + std::chrono::hours(1)}) {
    NewGrant odd = world.grant("/srv/odd");
    odd.life = life;
    CHECK(store->add(world.gate(), odd).error().field == "life");
  }
}

TEST_CASE("cases 11 and 66, B20, B23: what no grant may be is an error and changes nothing") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  const auto refused = [&](GrantedUse use) {
    NewGrant grant = world.grant();
    grant.use = std::move(use);
    const auto made = store->add(world.gate(), grant);
    return made ? std::string("given") : made.error().reason;
  };
  CHECK(refused({.operations = {Op::kRead}, .target = "~/.ssh/config"}) == "shadowed");
  CHECK(refused({.operations = {Op::kRead}, .target = "/home/u/**"}) == "too_wide");
  CHECK(refused({.operations = {Op::kExec}, .argv = {"find"}, .argv_is_prefix = true}) == "runner");
  CHECK(refused({.operations = {Op::kExec}, .argv = {"git"}, .argv_is_prefix = true}) == "runner");
  CHECK(store->read().grants->grants.empty());
  CHECK(audit.noted.empty());
}

TEST_CASE("a grant names its tree, its agent and nothing that a file could not hold") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  const auto field = [&](const std::function<void(NewGrant&)>& change) {
    NewGrant grant = world.grant();
    change(grant);
    const auto made = store->add(world.gate(), grant);
    return made ? std::string("given") : made.error().field;
  };
  CHECK(field([](NewGrant& g) { g.tree = "proj"; }) == "tree");
  CHECK(field([](NewGrant& g) { g.tree_identity = {}; }) == "tree");
  CHECK(field([](NewGrant& g) { g.tree = "/w/\xff"; }) == "tree");
  CHECK(field([](NewGrant& g) { g.agent.clear(); }) == "agent");
  CHECK(field([](NewGrant& g) { g.note = std::string(1025, 'x'); }) == "note");
  CHECK(field([](NewGrant& g) {
          g.use = {.operations = {Op::kExec}, .argv = {"ls", "\xff"}};
        }) == "argv");
  CHECK(field([](NewGrant& g) { g.note = std::string(1024, 'x'); }) == "given");
}

TEST_CASE("a change is noted before it happens, and one that cannot be noted does not happen") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  audit.before = [&](const GrantChange& change) {
    CHECK(change.kind == GrantChange::Kind::kGrant);
    CHECK(change.generation == 1);
    CHECK_FALSE(std::filesystem::exists(world.file()));
    return Status();
  };
  world.add(*store);
  audit.before = [](const GrantChange&) {
    return Status(Error{ErrorCode::kUnavailable, "the disk is full", "audit_unavailable"});
  };
  CHECK(store->add(world.gate(), world.grant("/srv/more")).error().reason == "audit_unavailable");
  const std::string id = store->read().grants->grants.front().grant.id;
  CHECK_FALSE(store->remove(std::vector{id}, "test").has_value());
  CHECK(store->read().grants->grants.size() == 1);
  CHECK(store->read().grants->generation == 1);
  CHECK(world.open(audit)->read().grants->generation == 1);
}

TEST_CASE("grants are taken back by their ids, all of them or none") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  const std::string one = world.add(*store, "/srv/one").grant.id;
  const std::string two = world.add(*store, "/srv/two").grant.id;
  CHECK(store->remove(std::vector<std::string>{one, "g_none"}, "test").error().code ==
        ErrorCode::kNotFound);
  CHECK(store->read().grants->grants.size() == 2);
  REQUIRE(store->remove(std::vector{one}, "me").has_value());
  REQUIRE(store->read().grants->grants.size() == 1);
  CHECK(store->read().grants->grants.front().grant.id == two);
  CHECK(audit.noted.back().kind == GrantChange::Kind::kRevoke);
  CHECK(audit.noted.back().grant.grant.id == one);
  CHECK(audit.noted.back().by == "me");
  REQUIRE(store->remove_all("me").has_value());
  CHECK(store->read().grants->grants.empty());
  CHECK(store->read().grants->generation == 4);
}

TEST_CASE("case 52, B22: a file of another mode, kind or size does not count, whole") {
  struct Row {
    const char* field;
    std::function<void(const std::string& path, const std::string& good)> tamper;
  };
  const std::vector<Row> rows = {
      {"mode", [](const auto& path, const auto& good) { put(path, good, 0644); }},
      {"mode", [](const auto& path, const auto& good) { put(path, good, 0660); }},
      {"mode", [](const auto& path, const auto& good) { put(path, good, 0400); }},
      {"type",
       [](const auto& path, const auto& good) {
         put(path + ".there", good);
         std::filesystem::remove(path);
         std::filesystem::create_symlink(path + ".there", path);
       }},
      {"type",
       [](const auto& path, const auto&) {
         std::filesystem::remove(path);
         std::filesystem::create_directory(path);
       }},
      {"type",
       [](const auto& path, const auto&) {
         std::filesystem::remove(path);
         REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
       }},
      {"size", [](const auto& path,
                  const auto& good) { put(path, good + std::string(kMaxGrantsBytes, ' ')); }},
      {"mac", [](const auto& path, const auto&) { put(path, "{"); }},
      {"mac", [](const auto& path, const auto&) { put(path, ""); }},
      {"mac", [](const auto& path,
                 const auto& good) { put(path, good.substr(0, good.size() - 1) + " "); }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.field);
    World world;
    TestAudit audit;
    const auto running = world.open(audit);
    world.add(*running);
    const auto read = item(Op::kRead, "/srv/data/x.csv");
    REQUIRE(world.told(*running, read) == kGranted);
    row.tamper(world.file(), bytes_of(world.file()));
    // A process that begins now has none; one that runs keeps what it saw as good.
    const auto fresh = world.open(audit);
    CHECK(ignored(*fresh) == row.field);
    CHECK(world.told(*fresh, read) == kAsked);
    CHECK(ignored(*running) == row.field);
    CHECK(world.told(*running, read) == kGranted);
    CHECK(running->add(world.gate(), world.grant("/srv/more")).error().reason == "grants_ignored");
  }
}

TEST_CASE("case 52: a file or folder of another user does not count") {
  World world;
  TestAudit audit;
  const auto running = world.open(audit);
  world.add(*running);
  constexpr uid_t kSomebody = 54321;
  if (::geteuid() != 0) {
    // Only root can give a file away: what everybody's files are is another user's for nobody else.
    CHECK(::chown(world.file().c_str(), kSomebody, kSomebody) != 0);
    return;
  }
  REQUIRE(::chown(world.file().c_str(), kSomebody, kSomebody) == 0);
  CHECK(ignored(*world.open(audit)) == "owner");
  REQUIRE(::chown(world.folder().c_str(), kSomebody, kSomebody) == 0);
  const auto opened = GrantStore::open({.folder = world.folder()}, audit, world.clock);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().reason == "bad_gate_folder");
}

TEST_CASE("case 53: JSON that cannot be read is no grants at first, the last good ones later") {
  World world;
  TestAudit audit;
  const auto running = world.open(audit);
  world.add(*running);
  REQUIRE(running->read().grants->grants.size() == 1);
  // Signed with the right key, and no JSON of grants all the same.
  KeptGrants bad = *running->read().grants;
  bad.generation += 1;
  bad.grants.push_back(bad.grants.front());
  const auto key = audit::Key::load(world.file("grants.key"));
  REQUIRE(key.has_value());
  put(world.file(), agent::sign_grants(bad, *key));
  CHECK(ignored(*running) == "json");
  CHECK(running->read().grants->grants.size() == 1);
  const auto fresh = world.open(audit);
  CHECK(ignored(*fresh) == "json");
  CHECK(fresh->read().grants->grants.empty());
}

TEST_CASE("a file that counts again is taken again") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  world.add(*store);
  const std::string good = bytes_of(world.file());
  put(world.file(), "{");
  CHECK(ignored(*store) == "mac");
  put(world.file(), good);
  CHECK(ignored(*store).empty());
  const std::string key = bytes_of(world.file("grants.key"));
  put(world.file("grants.key"), key, 0644);
  CHECK(ignored(*store) == "key");
  put(world.file("grants.key"), key);
  CHECK(ignored(*store).empty());
}

TEST_CASE("an older file, or none where there was one, was put back and grants nothing") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  const std::string id = world.add(*store).grant.id;
  const std::string with_grant = bytes_of(world.file());
  REQUIRE(store->remove(std::vector{id}, "test").has_value());
  const auto read = item(Op::kRead, "/srv/data/x.csv");
  REQUIRE(world.told(*store, read) == kAsked);
  put(world.file(), with_grant);
  CHECK(ignored(*store) == "generation");
  CHECK(world.told(*store, read) == kAsked);
  CHECK(ignored(*world.open(audit)) == "generation");
  CHECK(world.told(*world.open(audit), read) == kAsked);
  std::filesystem::remove(world.file());
  CHECK(ignored(*store) == "generation");
  CHECK(store->read().grants->grants.empty());
  CHECK(ignored(*world.open(audit)) == "generation");
  // The way out, which is noted as well.
  REQUIRE(store->remove_all("test").has_value());
  CHECK(ignored(*store).empty());
  CHECK(store->read().grants->generation == 3);
  CHECK(ignored(*world.open(audit)).empty());
}

TEST_CASE("without its key a file does not count, and no other key is made beside it") {
  World world;
  TestAudit audit;
  world.add(*world.open(audit));
  std::filesystem::remove(world.file("grants.key"));
  const auto store = world.open(audit);
  CHECK(ignored(*store) == "key");
  CHECK_FALSE(store->add(world.gate(), world.grant("/srv/more")).has_value());
  CHECK_FALSE(std::filesystem::exists(world.file("grants.key")));
}

TEST_CASE("files of the store are private, whatever the umask") {
  World world;
  TestAudit audit;
  const mode_t before = ::umask(0);
  world.add(*world.open(audit));
  ::umask(0777);
  const auto after_narrow = world.open(audit)->add(world.gate(), world.grant("/srv/more"));
  ::umask(before);
  CHECK(after_narrow.has_value());
  for (const char* name : {"grants.json", "grants.key"}) {
    struct stat facts {};
    REQUIRE(::stat(world.file(name).c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
  }
  struct stat facts {};
  REQUIRE(::stat(world.folder().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0700);
}

TEST_CASE("B21: the state folder is a private one outside of every tree, or the store is refused") {
  World world;
  TestAudit audit;
  const auto reason = [&](const GrantStore::Options& options) {
    const auto opened = GrantStore::open(options, audit, world.clock);
    return opened ? std::string("open") : opened.error().reason;
  };
  CHECK(reason({.folder = world.folder(), .roots = {"/srv/none", world.base + "/tree"}}) == "open");
  CHECK(reason({.folder = world.folder(), .roots = {world.base}}) == "bad_gate_folder");
  CHECK(reason({.folder = world.folder(), .roots = {world.folder()}}) == "bad_gate_folder");
  CHECK(reason({.folder = world.folder(), .roots = {world.folder() + "/audit"}}) ==
        "bad_gate_folder");
  std::filesystem::create_symlink(world.base + "/state", world.base + "/other");
  CHECK(reason({.folder = world.folder(), .roots = {world.base + "/other"}}) == "bad_gate_folder");
  CHECK(reason({.folder = world.base + "/other/sandboxkit/gate",
                .roots = {world.base + "/state"}}) == "bad_gate_folder");
  std::filesystem::create_directory_symlink(world.folder(), world.base + "/link");
  CHECK(reason({.folder = world.base + "/link"}) == "bad_gate_folder");
  CHECK(reason({.folder = "state"}) == "bad_gate_folder");
  CHECK(reason({.folder = world.base + "/x/../y"}) == "bad_gate_folder");
  REQUIRE(::chmod(world.folder().c_str(), 0750) == 0);
  CHECK(reason({.folder = world.folder()}) == "bad_gate_folder");
}

TEST_CASE("B40: what somebody put where the new file is written is not followed and not kept") {
  World world;
  TestAudit audit;
  world.add(*world.open(audit), "/srv/first");
  const std::string victim = world.base + "/victim";
  put(victim, "kept");
  std::filesystem::create_symlink(victim, world.file("grants.json.new"));
  const auto store = world.open(audit);
  world.add(*store, "/srv/second");
  CHECK(bytes_of(victim) == "kept");
  std::filesystem::create_symlink(victim, world.file("grants.json.new"));
  world.add(*store, "/srv/third");
  CHECK(bytes_of(victim) == "kept");
  CHECK(store->read().grants->grants.size() == 3);
  CHECK_FALSE(std::filesystem::exists(world.file("grants.json.new")));
}

TEST_CASE("many threads and processes give grants at once, and each of them is kept") {
  World world;
  agent::GrantLog log(world.folder());
  constexpr int kEach = 5;
  const auto give = [&](GrantAudit& audit, const std::string& who) {
    const auto store = world.open(audit);
    for (int i = 0; i < kEach; ++i) {
      world.add(*store, "/srv/" + who + std::to_string(i));
    }
  };
  { const auto made = world.open(log); }
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      agent::GrantLog own(world.folder());
      give(own, "p" + std::to_string(i) + "_");
      ::_exit(0);
    }
    children.push_back(child);
  }
  {
    const auto shared = world.open(log);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < kEach; ++k) {
          static_cast<void>(
              shared->add(world.gate(), world.grant("/srv/t" + std::to_string(i * kEach + k))));
          static_cast<void>(shared->read());
        }
      });
    }
  }
  for (const pid_t child : children) {
    int status = 1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const auto store = world.open(log);
  CHECK(ignored(*store).empty());
  const auto view = store->read();
  CHECK(view.grants->generation == 6 * kEach);
  std::set<std::string> targets;
  for (const KeptGrant& kept : view.grants->grants) {
    targets.insert(kept.grant.use.target);
  }
  CHECK(targets.size() == 6 * kEach);
  CHECK(*log.last_generation() == 6 * kEach);
}

TEST_CASE(
    "killed between the new file and its rename, a change that was noted happens, and else not") {
  for (const auto at : {KilledAt::kBeforeNote, KilledAt::kAfterNote}) {
    World world;
    {
      agent::GrantLog log(world.folder());
      world.add(*world.open(log), "/srv/first");
    }
    const int ended = in_child([&] {
      agent::GrantLog log(world.folder());
      KillingAudit killing(log, at);
      const auto store = world.open(killing);
      static_cast<void>(store->add(world.gate(), world.grant("/srv/second")));
    });
    REQUIRE(WIFSIGNALED(ended));
    REQUIRE(std::filesystem::exists(world.file("grants.json.new")));
    agent::GrantLog log(world.folder());
    const auto store = world.open(log);
    CHECK(ignored(*store).empty());
    CHECK(store->read().grants->generation == (at == KilledAt::kAfterNote ? 2 : 1));
    CHECK_FALSE(std::filesystem::exists(world.file("grants.json.new")));
    world.add(*store, "/srv/third");
    CHECK(ignored(*world.open(log)).empty());
  }
}

TEST_CASE("a process that runs on finishes what another one was killed in") {
  World world;
  {
    agent::GrantLog first(world.folder());
    world.add(*world.open(first), "/srv/first");
  }
  agent::GrantLog log(world.folder());
  const auto store = world.open(log);
  const int ended = in_child([&] {
    agent::GrantLog own(world.folder());
    KillingAudit killing(own, KilledAt::kAfterNote);
    static_cast<void>(world.open(killing)->add(world.gate(), world.grant("/srv/second")));
  });
  REQUIRE(WIFSIGNALED(ended));
  CHECK(store->read().grants->generation == 1);
  world.add(*store, "/srv/third");
  CHECK(store->read().grants->generation == 3);
  CHECK(store->read().grants->grants.size() == 3);
}

TEST_CASE("the audit log has every change with its generation, and an older file shows by it") {
  World world;
  agent::GrantLog log(world.folder());
  CHECK(*log.last_generation() == 0);
  std::string older;
  {
    const auto store = world.open(log);
    const std::string id = world.add(*store).grant.id;
    older = bytes_of(world.file());
    REQUIRE(store->remove(std::vector{id}, "me").has_value());
  }
  CHECK(*log.last_generation() == 2);
  put(world.file(), older);
  agent::GrantLog later(world.folder());
  CHECK(ignored(*world.open(later)) == "generation");
}

TEST_CASE("who only reads leaves no trace in the audit log") {
  World world;
  agent::GrantLog log(world.folder());
  CHECK(world.open(log)->read().grants->grants.empty());
  CHECK_FALSE(std::filesystem::exists(world.folder() + "/audit"));
}

TEST_CASE("there are 10,000 grants at most, and the next is refused") {
  World world;
  TestAudit audit;
  const auto store = world.open(audit);
  world.add(*store);
  KeptGrants many = *store->read().grants;
  while (many.grants.size() + 1 < kMaxKeptGrants) {
    many.grants.push_back(many.grants.front());
    many.grants.back().grant.id = "g_" + std::to_string(many.grants.size());
  }
  put(world.file(), agent::sign_grants(many, *audit::Key::load(world.file("grants.key"))));
  world.add(*store, "/srv/last");
  CHECK(store->read().grants->grants.size() == kMaxKeptGrants);
  CHECK(store->add(world.gate(), world.grant("/srv/over")).error().reason == "too_many_grants");
}
