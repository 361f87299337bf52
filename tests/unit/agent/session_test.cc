// A session with a person, a log and a real file system. Numbers are cases of the gate's design,
// section 5; B numbers its bypasses, section 3.

#include "tests/unit/agent/house.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;              // NOLINT(google-build-using-namespace)
using namespace sandboxkit::agent_test;  // NOLINT(google-build-using-namespace)

TEST_CASE("a session decides by the six branches and writes every decision down") {
  House house;
  {
    const auto session = house.start();
    CHECK(told(session->check(house.request(Op::kRead, "src/a.c"))) == "allow work_tree in_root");
    CHECK(told(session->check(house.request(Op::kRead, house.home + "/.ssh/id_rsa"))) ==
          "deny mandatory_denial denied");
    CHECK(told(session->check(house.request(Op::kWrite, house.state + "/grants.json"))) ==
          "deny hardlock denied");
    house.person.answers(PromptChoice::kOnce);
    CHECK(told(session->check(house.request(Op::kWrite, house.srv + "/y"))) ==
          "allow ask allowed_once");
  }
  CHECK(house.logged("\"kind\":\"policy.load\"") == 1);
  CHECK(house.logged("\"kind\":\"mode\"") == 1);
  CHECK(house.logged("\"kind\":\"decision\"") == 4);
  CHECK(house.logged("\"kind\":\"ask\"") == 1);
  const auto answers = house.log_lines("\"kind\":\"answer\"");
  REQUIRE(answers.size() == 1);
  for (const char* part : {"\"reason\":\"once\"", "\"by\":\"tty:test\"", "\"decision\":\"allow\"",
                           "\"req\":\"r4\"", "\"rule\":\"sha256:"}) {
    CAPTURE(std::string(part));
    CHECK(answers[0].find(part) != std::string::npos);
  }
}

TEST_CASE("case 81: without anybody to ask it is denied") {
  House house;
  const auto session = house.start(nullptr);
  CHECK(told(session->check(house.request(Op::kWrite, house.srv + "/y"))) == "deny ask no_handler");
  CHECK(house.logged("\"reason\":\"no_handler\"") == 2);
}

TEST_CASE("case 82: silence until the deadline is a denial, and so is an answer after it") {
  House house;
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  SUBCASE("the handler says so") {
    const auto session = house.start();
    house.person.follows([](const Prompt&, std::stop_token) -> Result<PromptReply> {
      return Error{ErrorCode::kDeadlineExceeded, "nobody answered"};
    });
    CHECK(told(session->check(write)) == "deny ask timeout");
  }
  SUBCASE("the handler is late") {
    house.options.ask_timeout = std::chrono::milliseconds(1);
    const auto session = house.start();
    house.person.follows([](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
      const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (std::chrono::steady_clock::now() < late) {
        std::this_thread::yield();
      }
      return PromptReply{
          .id = prompt.id, .digest = prompt.digest, .choice = PromptChoice::kSession, .by = "x"};
    });
    CHECK(told(session->check(write)) == "deny ask timeout");
    CHECK(session->status().session_grants == 0);
  }
  CHECK(kAskTimeout == std::chrono::seconds(120));
}

TEST_CASE("a handler that fails, throws, or answers something else is a denial") {
  House house;
  const auto session = house.start();
  const auto denied_with = [&](Person::Rule rule) {
    house.clock.advance(std::chrono::minutes(1));
    house.person.follows(std::move(rule));
    return told(session->check(house.request(Op::kWrite, house.srv + "/y")));
  };
  const std::string failed = "deny ask handler_error";
  CHECK(denied_with([](const Prompt&, std::stop_token) -> Result<PromptReply> {
          return Error{ErrorCode::kUnavailable, "no window"};
        }) == failed);
  CHECK(denied_with([](const Prompt&, std::stop_token) -> Result<PromptReply> {
          throw std::runtime_error("a defect");
        }) == failed);
  CHECK(denied_with([](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
          return PromptReply{
              .id = "p_other", .digest = prompt.digest, .choice = PromptChoice::kOnce};
        }) == failed);
  CHECK(denied_with([](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
          return PromptReply{.id = prompt.id, .digest = "sha256:0", .choice = PromptChoice::kOnce};
        }) == failed);
  CHECK(denied_with([](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
          return PromptReply{
              .id = prompt.id, .digest = prompt.digest, .choice = PromptChoice::kContinue};
        }) == failed);
}

TEST_CASE("case 83: after `don't ask again` nobody is asked") {
  House house;
  const auto session = house.start();
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  house.person.answers(PromptChoice::kNoForSession);
  CHECK(told(session->check(write)) == "deny ask refused");
  CHECK(told(session->check(write)) == "deny ask refused_before");
  CHECK(house.person.count() == 1);
}

TEST_CASE("case 84: two equal asks at once are one prompt, and both get the answer") {
  const auto both = [](PromptChoice choice) {
    House house;
    SlowPerson person;
    const auto session = house.start(&person);
    const auto write = house.request(Op::kWrite, house.srv + "/y");
    std::vector<std::string> answers(2);
    {
      std::jthread first([&] { answers[0] = told(session->check(write)); });
      person.wait_for_asks(1);
      std::jthread second([&] { answers[1] = told(session->check(write)); });
      person.answer(choice);
    }
    CHECK(person.asked() == 1);
    std::ranges::sort(answers);
    return answers;
  };
  // The second may come after the answer as well: then the grant is there.
  CHECK(both(PromptChoice::kSession) == std::vector<std::string>(2, "allow session_grant granted"));
  CHECK(both(PromptChoice::kAlwaysThis) ==
        std::vector<std::string>(2, "allow permanent_grant granted"));
  CHECK(both(PromptChoice::kNoForSession).front().starts_with("deny ask refused"));
}

TEST_CASE("case 84 and 85: a `once` that two wait for lets one through, the other is asked") {
  House house;
  SlowPerson person;
  const auto session = house.start(&person);
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  std::vector<std::string> answers(2);
  {
    std::jthread first([&] { answers[0] = told(session->check(write)); });
    std::jthread second([&] { answers[1] = told(session->check(write)); });
    person.wait_for_asks(1);
    person.answer(PromptChoice::kOnce);
    person.wait_for_asks(2);
    person.answer(PromptChoice::kNo);
  }
  std::ranges::sort(answers);
  CHECK(answers == std::vector<std::string>{"allow ask allowed_once", "deny ask refused"});
}

TEST_CASE("case 85: `once`, and the same again is asked again") {
  House house;
  const auto session = house.start();
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  house.person.answers(PromptChoice::kOnce);
  CHECK(told(session->check(write)) == "allow ask allowed_once");
  house.person.answers(PromptChoice::kNo);
  CHECK(told(session->check(write)) == "deny ask refused");
  CHECK(house.person.count() == 2);
}

TEST_CASE("case 86, B42: a session's grant is its agent's, and a sub-agent is asked by itself") {
  House house;
  const auto session = house.start();
  const auto child = session->start_sub_agent("child").value();
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  const auto read = house.request(Op::kRead, house.srv + "/data/x.csv");
  house.person.answers(PromptChoice::kSession);
  CHECK(told(session->check(write)) == "allow session_grant granted");
  house.person.answers(PromptChoice::kSession, true);
  CHECK(told(session->check(read)) == "allow session_grant granted");
  house.person.answers(PromptChoice::kNo);
  CHECK(told(child->check(write)) == "deny ask refused");
  CHECK(told(child->check(read)) == "allow session_grant granted");
  CHECK(house.person.asked().back().agent == "child");
  CHECK(session->start_sub_agent("child").error().code == ErrorCode::kConflict);
  CHECK(session->start_sub_agent("tester").error().code == ErrorCode::kConflict);
  CHECK(session->start_sub_agent("").error().field == "agent");
}

TEST_CASE("an `always` is kept by who keeps grants, and counts from then on") {
  House house;
  const auto session = house.start();
  const auto write = house.request(Op::kWrite, house.srv + "/data/y.csv");
  house.person.answers(PromptChoice::kAlwaysFolder);
  SUBCASE("kept") {
    CHECK(told(session->check(write)) == "allow permanent_grant granted");
    CHECK(told(session->check(house.request(Op::kWrite, house.srv + "/data/other"))) ==
          "allow permanent_grant granted");
    CHECK(house.person.count() == 1);
  }
  SUBCASE("not kept: it allows what was asked, and is written down") {
    house.shelf.broken = true;
    CHECK(told(session->check(write)) == "allow session_grant granted");
    CHECK(house.logged("\"reason\":\"not_kept\"") == 1);
    house.person.answers(PromptChoice::kNo);
    CHECK(told(session->check(write)) == "deny ask refused");
  }
}

TEST_CASE("an `always` that the store keeps counts for the next session of this agent and tree") {
  House house;
  const auto session = [&] {
    return AgentSession::start(
               house.options,
               {.eyes = system_eyes(), .clock = house.clock, .handler = &house.person})
        .value();
  };
  const auto write = house.request(Op::kWrite, house.srv + "/data/y.csv");
  // A session's grants and a policy's generation say nothing of the store's.
  house.options.policy_generation = 1000;
  house.person.answers(PromptChoice::kSession);
  CHECK(told(session()->check(house.request(Op::kRead, house.srv + "/data/x.csv"))) ==
        "allow session_grant granted");
  house.person.answers(PromptChoice::kAlwaysThis);
  CHECK(told(session()->check(write)) == "allow permanent_grant granted");
  house.person.answers(PromptChoice::kNo);
  house.options.session.session = "s_2";
  CHECK(told(session()->check(write)) == "allow permanent_grant granted");
  CHECK(house.logged("\"kind\":\"grant\"") == 2);
  house.options.session.agent = "another";
  CHECK(told(session()->check(write)) == "deny ask refused");
  house.options.session.agent = "tester";
  SUBCASE("not after thirty days") { house.clock.advance(std::chrono::hours(24 * 30)); }
  SUBCASE("nor when somebody touched the file") {
    House::write(house.state + "/grants.json", "{}");
    CHECK(session()->status().grants_problem.empty());  // Nobody looked yet.
  }
  CHECK(told(session()->check(write)) == "deny ask refused");
}

TEST_CASE("grants end with the work tree that they were given for") {
  House house;
  const auto session = house.start();
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  const auto read = house.request(Op::kRead, house.srv + "/data/x.csv");
  house.person.answers(PromptChoice::kSession);
  CHECK(told(session->check(write)) == "allow session_grant granted");
  house.person.answers(PromptChoice::kAlwaysThis);
  CHECK(told(session->check(read)) == "allow permanent_grant granted");

  fs::rename(house.tree, house.home + "/old");
  CHECK(told(session->check(write)) == "deny ask tree_gone");
  House::write(house.tree + "/src/a.c", "another tree");
  house.person.answers(PromptChoice::kNo);
  CHECK(told(session->check(write)) == "deny ask refused");
  CHECK(told(session->check(read)) == "deny ask refused");
  CHECK(house.logged("\"kind\":\"revoke\"") == 1);
}

TEST_CASE("an answer is for what was asked: what became of it meanwhile is judged again") {
  House house;
  const auto session = house.start();
  fs::create_symlink(house.srv + "/data", house.tree + "/way");
  const auto write = house.request(Op::kWrite, "way/y.csv");
  int asks = 0;
  house.person.follows([&](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
    // While the person thinks, the way leads elsewhere.
    if (++asks == 1) {
      fs::remove(house.tree + "/way");
      fs::create_symlink(house.home + "/.ssh", house.tree + "/way");
    }
    return PromptReply{
        .id = prompt.id, .digest = prompt.digest, .choice = PromptChoice::kOnce, .by = "x"};
  });
  CHECK(told(session->check(write)) == "deny mandatory_denial denied");
  CHECK(asks == 1);
}

TEST_CASE("case 80: strict denies what would be asked, and asks nobody") {
  House house;
  house.options.mode = PermissionMode::kStrict;
  house.options.granted = {{.operations = {Op::kRead}, .target = house.srv + "/data/x.csv"}};
  const auto session = house.start();
  CHECK(told(session->check(house.request(Op::kWrite, house.srv + "/y"))) == "deny ask strict");
  CHECK(told(session->check(house.request(Op::kRead, house.srv + "/data/x.csv"))) ==
        "allow session_grant granted");
  CHECK(house.person.count() == 0);
}

TEST_CASE("case 91: strict without a whole box does not start") {
  House house;
  house.options.mode = PermissionMode::kStrict;
  SUBCASE("none") { house.options.session.box_is_active = false; }
  SUBCASE("half of one") { house.options.box.strength = "partial"; }
  const auto session =
      AgentSession::start(house.options, {.eyes = system_eyes(), .clock = house.clock});
  REQUIRE_FALSE(session.has_value());
  CHECK(session.error().reason == "no_box");
}

TEST_CASE("case 94: mode off judges nothing and writes one line") {
  House house;
  house.options.mode = PermissionMode::kOff;
  {
    const auto session = house.start();
    const auto outcome = session->check(house.request(Op::kWrite, house.home + "/.bashrc"));
    CHECK(told(outcome) == "allow ask mode_off");
    CHECK_FALSE(outcome.decision.judged);
    CHECK_FALSE(session->status().active);
  }
  CHECK(house.logged("\"kind\":\"mode\"") == 1);
  CHECK(house.logged("\"mode\":\"off\"") == 1);
  CHECK(house.logged("\"kind\":\"decision\"") == 0);
}

TEST_CASE("case 95: a mode goes up while a session runs, and never down") {
  House house;
  const auto session = house.start();
  const auto child = session->start_sub_agent("child").value();
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  house.person.answers(PromptChoice::kSession);
  CHECK(told(session->check(write)) == "allow session_grant granted");
  CHECK(session->set_mode(PermissionMode::kOff).error().reason == "mode_down");
  REQUIRE(session->set_mode(PermissionMode::kStrict).has_value());
  CHECK(told(session->check(write)) == "deny ask strict");
  CHECK(told(child->check(write)) == "deny ask strict");
  for (const auto mode : {PermissionMode::kOff, PermissionMode::kPrompt}) {
    CHECK(session->set_mode(mode).error().reason == "mode_down");
  }
  CHECK(session->status().mode == PermissionMode::kStrict);
  CHECK(house.logged("\"kind\":\"mode\"") == 2);
}

TEST_CASE("case 95: from off a mode goes up, and from then on it judges and writes") {
  House house;
  house.options.mode = PermissionMode::kOff;
  const auto session = house.start();
  const auto write = house.request(Op::kWrite, house.home + "/.bashrc");
  CHECK(told(session->check(write)) == "allow ask mode_off");
  REQUIRE(session->set_mode(PermissionMode::kPrompt).has_value());
  CHECK(told(session->check(write)) == "deny mandatory_denial denied");
  CHECK(session->status().active);
  CHECK(house.logged("\"kind\":\"policy.load\"") == 1);
  CHECK(house.logged("\"kind\":\"decision\"") == 1);
}

TEST_CASE("case 95: strict counts for what a person is asked just then") {
  House house;
  const auto session = house.start();
  house.person.follows([&](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
    REQUIRE(session->set_mode(PermissionMode::kStrict).has_value());
    return PromptReply{
        .id = prompt.id, .digest = prompt.digest, .choice = PromptChoice::kSession, .by = "x"};
  });
  CHECK(told(session->check(house.request(Op::kWrite, house.srv + "/y"))) == "deny ask strict");
  CHECK(session->status().session_grants == 0);
  CHECK(house.logged("\"reason\":\"changed\"") == 1);
}

TEST_CASE("case 96: what cannot be written down is denied, but for reads in prompt mode") {
  House house;
  SUBCASE("prompt") {
    const auto session = house.start();
    house.person.answers(PromptChoice::kOnce);
    {
      const FullDisk full(1);
      CHECK(told(session->check(house.request(Op::kDelete, house.home + "/.bashrc"))) ==
            "deny mandatory_denial denied");  // From here on the log knows that it fails.
      const auto read = session->check(house.request(Op::kRead, "src/a.c"));
      CHECK(told(read) == "allow work_tree in_root");
      CHECK(read.unaudited);
      CHECK(told(session->check(house.request(Op::kWrite, "src/a.c"))) ==
            "deny ask audit_unavailable");
      CHECK(told(session->check(GateRequest{
                .cwd = house.tree, .items = {{.operation = Op::kExec, .command = "true"}}})) ==
            "deny ask audit_unavailable");
      CHECK(told(session->check(house.request(Op::kConnect, "example.com:443"))) ==
            "deny ask audit_unavailable");
      CHECK(house.person.count() == 0);
      // A read that a person allows is allowed this once, and nothing is remembered.
      house.person.answers(PromptChoice::kSession);
      const auto asked = session->check(house.request(Op::kRead, house.srv + "/data/x.csv"));
      CHECK(told(asked) == "allow ask allowed_once");
      CHECK(asked.unaudited);
      CHECK(session->status().session_grants == 0);
      CHECK_FALSE(session->status().audit_writable);
    }
    CHECK(told(session->check(house.request(Op::kWrite, "src/a.c"))) == "allow work_tree in_root");
    CHECK(session->status().audit_writable);
  }
  SUBCASE("strict") {
    house.options.mode = PermissionMode::kStrict;
    const auto session = house.start();
    const FullDisk full(1);
    session->check(house.request(Op::kDelete, house.home + "/.bashrc"));
    for (const Op operation : {Op::kRead, Op::kWrite}) {
      const auto outcome = session->check(house.request(operation, "src/a.c"));
      CHECK(told(outcome) == "deny ask audit_unavailable");
      CHECK_FALSE(outcome.unaudited);
    }
  }
}

TEST_CASE("case 99, B39: a name with a line feed is one line of the log") {
  House house;
  house.person.answers(PromptChoice::kNo);
  const std::string name = house.srv + "/a\n{\"kind\":\"decision\"}\x1b[2J";
  {
    const auto session = house.start();
    CHECK(told(session->check(house.request(Op::kWrite, name))) == "deny ask refused");
  }
  CHECK(house.logged("\x1b") == 0);
  const auto lines = house.log_lines("\\\\x0a{");
  CHECK(lines.size() == 2);  // The question and the decision.
  CHECK(house.person.asked()[0].asks[0].text.ends_with(R"(/a\x0a{"kind":"decision"}\x1b[2J)"));
}

TEST_CASE("case 100: the log of two sessions at once verifies as a whole") {
  House house;
  {
    const auto one = house.start();
    house.options.session.session = "s_2";
    const auto two = house.start();
    std::vector<std::jthread> threads;
    for (const auto* session : {&one, &two}) {
      threads.emplace_back([&house, session] {
        for (int i = 0; i < 20; ++i) {
          if (i == 10) {
            house.clock.advance(std::chrono::hours(24));  // Another day is another file.
          }
          (*session)->check(house.request(Op::kRead, house.home + "/.ssh/id_rsa"));
        }
      });
    }
  }
  const audit::Key key = audit::Key::load(house.state + "/grants.key").value();
  const auto checked = audit::verify_folder(house.state + "/audit", &key);
  REQUIRE(checked.has_value());
  CHECK(checked->intact());
  CHECK(house.logged("\"kind\":\"decision\"") == 40);
  CHECK(house.logged("\"session\":\"s_2\"") >= 20);
}

TEST_CASE("B38: an agent that asks too often is stopped as a whole") {
  House house;
  const auto session = house.start();
  const auto child = session->start_sub_agent("child").value();
  house.person.follows([](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
    const auto choice =
        prompt.kind == PromptKind::kBudget ? PromptChoice::kStop : PromptChoice::kNo;
    return PromptReply{.id = prompt.id, .digest = prompt.digest, .choice = choice, .by = "x"};
  });
  for (int i = 0; i < 10; ++i) {
    CHECK(told(session->check(house.request(Op::kWrite, house.srv + "/" + std::to_string(i)))) ==
          "deny ask refused");
  }
  CHECK(told(child->check(house.request(Op::kWrite, house.srv + "/more"))) == "deny ask stopped");
  CHECK(told(session->check(house.request(Op::kRead, "src/a.c"))) == "deny ask stopped");
  CHECK(house.person.count() == 11);
  CHECK(session->status().stopped == "stopped");
}

TEST_CASE("a question ends with its caller, and then others who wait for it ask themselves") {
  House house;
  SlowPerson person;
  const auto session = house.start(&person);
  const auto write = house.request(Op::kWrite, house.srv + "/y");
  std::stop_source caller;
  std::string first;
  std::string second;
  {
    std::jthread one([&] { first = told(session->check(write, caller.get_token())); });
    person.wait_for_asks(1);
    std::jthread two([&] { second = told(session->check(write)); });
    caller.request_stop();
    person.wait_for_asks(2);
    person.answer(PromptChoice::kOnce);
  }
  CHECK(first == "deny ask cancelled");
  CHECK(second == "allow ask allowed_once");
}

TEST_CASE("the end of a session ends its questions, and everything after it is denied") {
  House house;
  SlowPerson person;
  auto session = house.start(&person);
  const auto child = session->start_sub_agent("child").value();
  std::string asked;
  {
    std::jthread one(
        [&] { asked = told(child->check(house.request(Op::kWrite, house.srv + "/y"))); });
    person.wait_for_asks(1);
    session.reset();
  }
  CHECK(asked == "deny ask session_ended");
  CHECK(told(child->check(house.request(Op::kRead, "src/a.c"))) == "deny ask session_ended");
}

TEST_CASE("a session without what it needs does not start") {
  House house;
  const auto field_of = [&](auto change) {
    AgentSessionOptions options = house.options;
    change(options);
    const auto session =
        AgentSession::start(options, {.eyes = system_eyes(), .clock = house.clock});
    return session ? std::string("started") : session.error().field;
  };
  CHECK(field_of([](auto&) {}) == "started");
  CHECK(field_of([](auto& o) { o.session.agent.clear(); }) == "agent");
  CHECK(field_of([](auto& o) { o.session.session = std::string(257, 'x'); }) == "session");
  CHECK(field_of([](auto& o) { o.ask_timeout = {}; }) == "ask_timeout");
  CHECK(field_of([](auto& o) { o.ask_timeout = kMaxAskTimeout + std::chrono::milliseconds(1); }) ==
        "ask_timeout");
  const auto reason_of_folder = [&](const std::string& folder, std::vector<GateRoot> roots) {
    AgentSessionOptions options = house.options;
    options.state_folder = folder;
    options.policy.roots = std::move(roots);
    const auto session =
        AgentSession::start(options, {.eyes = system_eyes(), .clock = house.clock});
    return session ? std::string("started") : session.error().reason;
  };
  CHECK(reason_of_folder(house.tree + "/state", {}) == "bad_gate_folder");
  CHECK(reason_of_folder(house.state, {{house.state, RootAccess::kReadOnly}}) != "started");
  CHECK(reason_of_folder(house.srv, {}) == "bad_gate_folder");  // Others may use it.
  CHECK(field_of([&](auto& o) {
          o.granted = {{.operations = {Op::kRead}, .target = "~/.ssh/id_rsa"}};
        }) == "target");
}
