#pragma once

#include "sandboxkit/agent_session.h"
#include "sandboxkit/system_eyes.h"

#include "audit/files.h"
#include "audit/folder.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/// What the tests of sessions share: a home with a tree and secrets, a person, a shelf of grants.
namespace sandboxkit::agent_test {

using Op = GateOperation;
namespace fs = std::filesystem;

class TestClock final : public Clock {
 public:
  WallTime now() const override { return WallTime(std::chrono::milliseconds(ms_.load())); }
  void advance(std::chrono::milliseconds by) { ms_ += by.count(); }

 private:
  std::atomic<std::int64_t> ms_{1'796'000'000'000};
};

/// A person who answers at once, by a rule, and remembers what was asked.
class Person final : public PromptHandler {
 public:
  using Rule = std::function<Result<PromptReply>(const Prompt&, std::stop_token)>;

  void answers(PromptChoice choice, bool for_sub_agents = false) {
    follows([=](const Prompt& prompt, std::stop_token) {
      return PromptReply{.id = prompt.id,
                         .digest = prompt.digest,
                         .choice = choice,
                         .for_sub_agents = for_sub_agents,
                         .by = "tty:test"};
    });
  }
  void follows(Rule rule) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(rule);
  }
  std::vector<Prompt> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  std::size_t count() const { return asked().size(); }

  Result<PromptReply> ask(const Prompt& prompt, std::chrono::steady_clock::time_point,
                          std::stop_token stop) override {
    Rule rule;
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(prompt);
      rule = rule_;
    }
    return rule(prompt, std::move(stop));
  }

 private:
  mutable std::mutex mutex_;
  Rule rule_ = [](const Prompt&, std::stop_token) -> Result<PromptReply> {
    return Error{ErrorCode::kInternal, "nobody told the person what to say"};
  };
  std::vector<Prompt> asked_;
};

/// A person who answers when the test says so.
class SlowPerson final : public PromptHandler {
 public:
  Result<PromptReply> ask(const Prompt& prompt, std::chrono::steady_clock::time_point,
                          std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    ++asked_;
    changed_.notify_all();
    if (!changed_.wait(lock, std::move(stop), [this] { return answers_ > 0; })) {
      return Error{ErrorCode::kCancelled, "it ended"};
    }
    --answers_;
    return PromptReply{
        .id = prompt.id, .digest = prompt.digest, .choice = choice_, .by = "tty:test"};
  }
  void answer(PromptChoice choice, int times = 1) {
    const std::lock_guard lock(mutex_);
    choice_ = choice;
    answers_ += times;
    changed_.notify_all();
  }
  void wait_for_asks(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_ >= count; });
  }
  int asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  int asked_ = 0;
  int answers_ = 0;
  PromptChoice choice_ = PromptChoice::kNo;
};

/// Permanent grants in memory.
class Shelf final : public GrantSource {
 public:
  GrantSnapshot snapshot() override {
    const std::lock_guard lock(mutex_);
    return snapshot_;
  }
  Result<std::string> add(const PermissionGate& gate, const GrantToKeep& grant) override {
    if (auto status = gate.check_new(grant.use); !status) {
      return status.error();
    }
    const std::lock_guard lock(mutex_);
    if (broken) {
      return Error{ErrorCode::kUnavailable, "the shelf is broken"};
    }
    auto grants = *snapshot_.grants;
    const std::string id = "g_" + std::to_string(grants.size() + 1);
    grants.push_back({.id = id,
                      .use = grant.use,
                      .tree = grant.tree,
                      .tree_identity = grant.tree_identity,
                      .agent = grant.agent,
                      .needs_box = false,
                      .expires = {}});
    snapshot_.grants = std::make_shared<const std::vector<PermanentGrant>>(std::move(grants));
    return id;
  }
  std::atomic<bool> broken = false;

 private:
  std::mutex mutex_;
  GrantSnapshot snapshot_;
};

/// A machine of one test: folders in memory where that is there, as sessions sync often.
struct House {
  std::string base;
  std::string home, tree, state, srv;
  TestClock clock;
  Person person;
  Shelf shelf;
  AgentSessionOptions options;

  House() : options(first_options()) {
    const bool in_memory = ::access("/dev/shm", W_OK) == 0;
    std::string name =
        (in_memory ? "/dev/shm" : fs::temp_directory_path().string()) + "/sandboxkit-agent-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    base = fs::canonical(name).string();
    home = base + "/home";
    tree = home + "/proj";
    srv = base + "/srv";
    state = base + "/state";
    for (const char* path : {"/home/proj/src/a.c", "/home/.ssh/id_rsa", "/home/.bashrc",
                             "/srv/data/x.csv", "/srv/data/y.csv"}) {
      write(base + path, path);
    }
    options.session.tree = tree;
    options.session.tree_identity = identity(tree);
    options.session.home = home;
    options.state_folder = state;
  }
  ~House() { fs::remove_all(base); }
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  static AgentSessionOptions first_options() {
    return {.session = {.tree = {},
                        .tree_identity = {},
                        .home = {},
                        .agent = "tester",
                        .session = "s_1",
                        .program_dirs = {"/usr/bin", "/bin"},
                        .box_is_active = true},
            .policy = GatePolicy::shipped(),
            .mode = PermissionMode::kPrompt,
            .state_folder = {},
            .policy_source = "policy.json"};
  }
  static void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static FileIdentity identity(const std::string& path) {
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    return {facts.st_dev, facts.st_ino};
  }
  std::unique_ptr<AgentSession> start(PromptHandler* handler) {
    auto session = AgentSession::start(
        options, {.eyes = system_eyes(), .clock = clock, .handler = handler, .grants = &shelf});
    REQUIRE_MESSAGE(session.has_value(), (session ? "" : session.error().message));
    return std::move(*session);
  }
  std::unique_ptr<AgentSession> start() { return start(&person); }

  GateRequest request(Op operation, const std::string& path) const {
    return {.cwd = tree, .items = {{.operation = operation, .target = path}}};
  }

  /// Lines of the log that hold `text`, of all segments.
  std::vector<std::string> log_lines(const std::string& text = {}) const {
    std::vector<std::string> found;
    for (const auto& file : fs::directory_iterator(state + "/audit")) {
      std::ifstream lines(file.path());
      for (std::string line; file.path().extension() == ".jsonl" && std::getline(lines, line);) {
        if (line.find(text) != std::string::npos) {
          found.push_back(line);
        }
      }
    }
    return found;
  }
  std::size_t logged(const std::string& text) const { return log_lines(text).size(); }
};

/// `deny ask timeout`: short enough for a table.
inline std::string told(const GateOutcome& outcome) {
  const GateDecision& decision = outcome.decision;
  return std::string(name_of(decision.answer)) + " " + name_of(decision.decisive.branch) + " " +
         decision.decisive.reason;
}

/// Files of this process may not grow past `bytes` while it lives: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit full = before_;
    full.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  audit::NoSizeSignal no_signal_{};
};

}  // namespace sandboxkit::agent_test
