// What a session remembers of its questions. Numbers are cases of the gate's design, section 5;
// B numbers its bypasses, section 3.

#include "gate/desk.h"

#include "gate/prompt.h"
#include "gate/shown_text.h"
#include "tests/unit/gate/world.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;             // NOLINT(google-build-using-namespace)
using namespace sandboxkit::gate_test;  // NOLINT(google-build-using-namespace)
using gate::Desk;
using gate::DeskNext;
using gate::DeskStep;
using gate::Ruling;
using gate::Settlement;

namespace {

using std::chrono::milliseconds;

/// A desk with a gate in front, as a session has it, without threads and files.
struct Office {
  Question with{};
  Desk desk{"s_1", true};
  WallTime now = kNow;
  int asked = 0;

  struct Looked {
    GateRequest request;
    GateDecision decision;
    DeskStep step;
  };
  Looked look(std::vector<GateItem> items, const std::string& agent = "claude-code",
              const std::string& why = {}) {
    GateSession principal = session(with.eyes, with.box);
    principal.agent = agent;
    const auto gate = PermissionGate::create(principal, with.policy, with.mode).value();
    const auto generation = desk.generation();
    const auto grants = gate.compile(with.permanent, desk.grants_of(agent, now)).value();
    Looked looked{.request = {.cwd = with.cwd, .items = std::move(items), .why = why},
                  .decision = {},
                  .step = {}};
    looked.decision = gate.decide(looked.request, grants, with.eyes, now);
    if (looked.decision.answer == GateAnswer::kAsk) {
      const gate::Question question{gate, looked.request, looked.decision, principal};
      looked.step = desk.step({question, gate::canonical_text(looked.request, looked.decision),
                               "p_" + std::to_string(++asked), generation},
                              now);
    }
    return looked;
  }
  Looked look(const GateItem& item, const std::string& agent = "claude-code") {
    return look(std::vector{item}, agent);
  }
  Settlement answer(const DeskStep& step, PromptChoice choice, bool for_sub_agents = false) {
    REQUIRE(step.next == DeskNext::kAsk);
    const PromptReply reply{.id = step.id,
                            .digest = step.prompt->digest,
                            .choice = choice,
                            .for_sub_agents = for_sub_agents,
                            .by = "test"};
    REQUIRE(desk.problem_of(step.id, reply) == "");
    return desk.settle(reply, now);
  }
};

const GateItem kWrite = item(Op::kWrite, "/srv/data/y");

std::vector<std::string> choices(const DeskStep& step) {
  REQUIRE(step.prompt.has_value());
  std::vector<std::string> names;
  for (const PromptOffer& offer : step.prompt->offers) {
    names.emplace_back(name_of(offer.choice));
  }
  return names;
}

/// Everything that a person would see.
std::string all_text(const Prompt& prompt) {
  std::string text =
      prompt.session + prompt.agent + prompt.tree + prompt.cwd + prompt.untrusted_why;
  for (const PromptAsk& ask : prompt.asks) {
    text += ask.text + ask.to;
  }
  for (const PromptItem& shown : prompt.items) {
    text += shown.name + shown.reason;
    for (const std::string& via : shown.via) {
      text += via;
    }
  }
  for (const PromptOffer& offer : prompt.offers) {
    for (const std::string& grant : offer.grants) {
      text += grant;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("case 83: what was answered `don't ask again` is refused without a prompt") {
  Office office;
  const auto settled = office.answer(office.look(kWrite).step, PromptChoice::kNoForSession);
  CHECK(settled.ruling == Ruling::kDenied);
  CHECK(settled.reason == "refused");
  // Another spelling of the same path is the same request, also for a sub-agent.
  for (const char* path : {"/srv/data/y", "/srv//data/./y", "/srv/data/../data/y"}) {
    CAPTURE(std::string(path));
    CHECK(office.look(item(Op::kWrite, path)).step.reason == "refused_before");
    CHECK(office.look(item(Op::kWrite, path), "other").step.reason == "refused_before");
  }
  CHECK(office.look(item(Op::kRead, "/srv/data/y")).step.next == DeskNext::kAsk);
}

TEST_CASE("a plain no refuses this once") {
  Office office;
  CHECK(office.answer(office.look(kWrite).step, PromptChoice::kNo).reason == "refused");
  CHECK(office.look(kWrite).step.next == DeskNext::kAsk);
}

TEST_CASE("case 84: two equal asks at once are one prompt, and another agent's is its own") {
  Office office;
  const auto first = office.look(kWrite);
  REQUIRE(first.step.next == DeskNext::kAsk);
  const auto second = office.look(item(Op::kWrite, "/srv/data/../data/y"));
  CHECK(second.step.next == DeskNext::kWait);
  CHECK(second.step.id == first.step.id);
  CHECK(office.look(kWrite, "other").step.next == DeskNext::kAsk);
  CHECK(office.answer(first.step, PromptChoice::kSession).ruling == Ruling::kAllowed);
  CHECK(told(office.look(kWrite).decision) == "allow session_grant granted");
}

TEST_CASE("case 85: `once` lets one request through, and the same again is asked") {
  Office office;
  CHECK(office.answer(office.look(kWrite).step, PromptChoice::kOnce).ruling == Ruling::kPass);
  CHECK(office.look(kWrite).step.next == DeskNext::kPass);
  CHECK(office.look(kWrite).step.next == DeskNext::kAsk);
}

TEST_CASE("case 85: `once` is for exactly this, for its agent, and for a minute") {
  Office office;
  office.answer(office.look(kWrite).step, PromptChoice::kOnce);
  CHECK(office.look(item(Op::kWrite, "/srv/data/z")).step.next == DeskNext::kAsk);
  CHECK(office.look(kWrite, "other").step.next == DeskNext::kAsk);
  SUBCASE("just before its end") {
    office.now += gate::kOnceLife - milliseconds(1);
    CHECK(office.look(kWrite).step.next == DeskNext::kPass);
  }
  SUBCASE("at its end") {
    office.now += gate::kOnceLife;
    CHECK(office.look(kWrite).step.next == DeskNext::kAsk);
  }
  SUBCASE("a clock that is set back does not prolong it") {
    office.now += gate::kOnceLife;
    office.look(item(Op::kRead, "/srv/none"));
    office.now -= gate::kOnceLife;
    CHECK(office.look(kWrite).step.next == DeskNext::kAsk);
  }
}

TEST_CASE(
    "case 86, B42: a sub-agent has none of its parent's grants, unless they were given to it") {
  Office office;
  REQUIRE(office.desk.add_agent("child", "claude-code").has_value());
  REQUIRE(office.desk.add_agent("grandchild", "child").has_value());
  office.answer(office.look(kWrite).step, PromptChoice::kSession);
  CHECK(told(office.look(kWrite).decision) == "allow session_grant granted");
  CHECK(told(office.look(kWrite, "child").decision) == "ask ask not_granted");

  const GateItem shared = item(Op::kRead, "/srv/data/x.csv");
  office.answer(office.look(shared).step, PromptChoice::kSession, true);
  for (const char* agent : {"child", "grandchild"}) {
    CHECK(told(office.look(shared, agent).decision) == "allow session_grant granted");
  }
  CHECK(told(office.look(shared, "stranger").decision) == "ask ask not_granted");
  // What a child is given does not go up.
  const GateItem own = item(Op::kRead, "/srv/x/own");
  office.answer(office.look(own, "child").step, PromptChoice::kSession, true);
  CHECK(told(office.look(own).decision) == "ask ask not_granted");
}

TEST_CASE("an agent's name is taken once") {
  Office office;
  REQUIRE(office.desk.add_agent("child", "claude-code").has_value());
  CHECK(office.desk.add_agent("child", "claude-code").error().code == ErrorCode::kConflict);
  CHECK(office.desk.add_agent("claude-code", "child").error().code == ErrorCode::kConflict);
  CHECK(office.desk.add_agent("x", "x").error().code == ErrorCode::kConflict);
  for (std::size_t i = 1; i < gate::kMaxAgents; ++i) {
    REQUIRE(office.desk.add_agent("a" + std::to_string(i), "child").has_value());
  }
  CHECK(office.desk.add_agent("one", "child").error().code == ErrorCode::kResourceExhausted);
}

TEST_CASE("a session's grants end after eight hours, and with mode or tree") {
  Office office;
  office.answer(office.look(kWrite).step, PromptChoice::kSession);
  SUBCASE("just before") {
    office.now += gate::kSessionGrantLife - milliseconds(1);
    CHECK(told(office.look(kWrite).decision) == "allow session_grant granted");
  }
  SUBCASE("at their end") {
    office.now += gate::kSessionGrantLife;
    CHECK(told(office.look(kWrite).decision) == "ask ask not_granted");
  }
  SUBCASE("forgotten") {
    office.answer(office.look(item(Op::kRead, "/srv/o")).step, PromptChoice::kOnce);
    const auto before = office.desk.generation();
    CHECK(office.desk.forget_grants().size() == 1);
    CHECK(office.desk.generation() > before);
    CHECK(told(office.look(kWrite).decision) == "ask ask not_granted");
    CHECK(office.look(item(Op::kRead, "/srv/o")).step.next == DeskNext::kAsk);
  }
  SUBCASE("the session ends") {
    office.desk.stop("session_ended");
    CHECK(office.look(kWrite).step.reason == "session_ended");
    CHECK(office.desk.grant_count() == 0);
  }
}

TEST_CASE("case 73: a socket that a person allowed for the session is allowed") {
  Office office;
  const GateItem agent_socket = item(Op::kUnix, "/tmp/ssh-x/agent.1");
  const auto asked = office.look(agent_socket);
  CHECK(told(asked.decision) == "ask ask not_granted");
  office.answer(asked.step, PromptChoice::kSession);
  CHECK(told(office.look(agent_socket).decision) == "allow session_grant granted");
  CHECK(told(office.look(item(Op::kWrite, "/tmp/ssh-x/agent.1")).decision) ==
        "ask ask not_granted");
}

TEST_CASE("B38: the eleventh question in a minute is whether the agent may go on") {
  Office office;
  const auto other = [&](int i) { return item(Op::kWrite, "/srv/data/" + std::to_string(i)); };
  for (std::size_t i = 0; i < gate::kMaxAsksInWindow; ++i) {
    const auto asked = office.look(other(static_cast<int>(i)));
    REQUIRE(asked.step.prompt->kind == PromptKind::kRequest);
    office.answer(asked.step, PromptChoice::kNo);
  }
  // Another agent of the session does not begin anew.
  const auto summary = office.look(other(100), "child");
  REQUIRE(summary.step.next == DeskNext::kAsk);
  CHECK(summary.step.prompt->kind == PromptKind::kBudget);
  CHECK(choices(summary.step) == std::vector<std::string>{"continue", "stop"});
  CHECK(office.look(other(101)).step.next == DeskNext::kWait);
  CHECK(office.look(other(101)).step.id == summary.step.id);
  SUBCASE("it may") {
    CHECK(office.answer(summary.step, PromptChoice::kContinue).ruling == Ruling::kAgain);
    CHECK(office.look(other(100)).step.prompt->kind == PromptKind::kRequest);
  }
  SUBCASE("it is stopped") {
    CHECK(office.answer(summary.step, PromptChoice::kStop).reason == "stopped");
    CHECK(office.look(other(100)).step.reason == "stopped");
    CHECK(office.desk.stopped() == "stopped");
  }
  SUBCASE("nobody says") {
    CHECK(office.desk.give_up(summary.step.id, "timeout").reason == "timeout");
    CHECK(office.look(other(100)).step.prompt->kind == PromptKind::kBudget);
  }
  SUBCASE("the minute is over") {
    office.desk.give_up(summary.step.id, "timeout");
    office.now += gate::kAskWindow;
    CHECK(office.look(other(100)).step.prompt->kind == PromptKind::kRequest);
  }
}

TEST_CASE(
    "case 84: an answer that came after a request was judged is seen before anybody is asked") {
  Office office;
  const auto first = office.look(kWrite);
  const auto generation = office.desk.generation();
  office.answer(first.step, PromptChoice::kAlwaysThis);
  // Judged before the answer, on its way to the desk after it.
  const auto gate = gate_of(office.with);
  const GateSession principal = session(office.with.eyes);
  const gate::Question question{gate, first.request, first.decision, principal};
  CHECK(
      office.desk.step({question, first.step.prompt->digest, "p_x", generation}, office.now).next ==
      DeskNext::kAgain);
}

TEST_CASE("no more questions wait than a limit") {
  Office office;
  for (std::size_t i = 0; i < gate::kMaxPending; ++i) {
    office.now += gate::kAskWindow;
    const GateItem one = item(Op::kWrite, "/srv/data/" + std::to_string(i));
    REQUIRE(office.look(one).step.next == DeskNext::kAsk);
  }
  office.now += gate::kAskWindow;
  CHECK(office.look(item(Op::kWrite, "/srv/data/one_more")).step.reason == "too_many_asks");
}

TEST_CASE("more grants than a session holds are given once, and no more") {
  Office office;
  const std::vector<GrantedUse> many(gate::kMaxSessionGrants,
                                     {.operations = {Op::kRead}, .target = "/srv/data/q"});
  REQUIRE(office.desk.give("claude-code", many, office.now).has_value());
  CHECK(office.desk.give("claude-code", {many.front()}, office.now).error().code ==
        ErrorCode::kResourceExhausted);
  CHECK(office.answer(office.look(kWrite).step, PromptChoice::kSession).ruling == Ruling::kPass);
  CHECK(office.desk.grant_count() == gate::kMaxSessionGrants);
}

TEST_CASE("what is offered is what may be granted") {
  Office office;
  const std::vector<std::string> everything{"once",          "session", "always_this",
                                            "always_folder", "no",      "no_for_session"};
  const std::vector<std::string> no_folder{"once", "session", "always_this", "no",
                                           "no_for_session"};
  const std::vector<std::string> once_only{"once", "no", "no_for_session"};
  CHECK(choices(office.look(kWrite).step) == everything);
  // One step up is a folder of the machine itself.
  CHECK(choices(office.look(item(Op::kWrite, "/srv/f")).step) == no_folder);
  // Its folder is the home.
  CHECK(choices(office.look(item(Op::kRead, "/home/u/notes")).step) == no_folder);
  CHECK(choices(office.look(item(Op::kConnect, "x.com:443")).step) == no_folder);
  CHECK(choices(office.look(item(Op::kRename, "/srv/data/x.csv", "/srv/data/z")).step) ==
        once_only);
  office.now += gate::kAskWindow;
  CHECK(choices(office.look({kWrite, item(Op::kConnect, "x.com:443")}).step) == no_folder);

  Office unboxed;
  unboxed.with.box = false;
  CHECK(choices(unboxed.look(command("git status")).step) == no_folder);
  // Case 61: what a command does is not known before it runs.
  CHECK(choices(unboxed.look(command("git status $(id)")).step) == once_only);
  CHECK(choices(unboxed.look(command("git status && no-such-program")).step) == once_only);
  // One word with a blank and two words say the same; neither is granted.
  CHECK(choices(unboxed.look(command("git 'a b' && git a b")).step) == once_only);

  Office nobody_keeps;
  nobody_keeps.desk = Desk("s_1", false);
  CHECK(choices(nobody_keeps.look(kWrite).step) ==
        std::vector<std::string>{"once", "session", "no", "no_for_session"});
}

TEST_CASE("an `always` grants exactly what was offered") {
  Office office;
  const GateItem odd = item(Op::kWrite, "/srv/data/[a]*");
  const auto asked = office.look(odd);
  SUBCASE("this") {
    const gate::Grantable grants = office.desk.pending(asked.step.id)->grants;
    REQUIRE(grants.exact.size() == 1);
    CHECK(office.answer(asked.step, PromptChoice::kAlwaysThis).ruling == Ruling::kAllowed);
    office.with.permanent = {permanent(office.with.eyes, grants.exact[0])};
    CHECK(told(office.look(odd).decision) == "allow permanent_grant granted");
    CHECK(told(office.look(item(Op::kWrite, "/srv/data/ab")).decision) == "ask ask not_granted");
    CHECK(told(office.look(item(Op::kRead, "/srv/data/[a]*")).decision) == "ask ask not_granted");
  }
  SUBCASE("the folder") {
    const gate::Grantable grants = office.desk.pending(asked.step.id)->grants;
    REQUIRE(grants.folder.size() == 1);
    CHECK(office.answer(asked.step, PromptChoice::kAlwaysFolder).ruling == Ruling::kAllowed);
    office.with.permanent = {permanent(office.with.eyes, grants.folder[0])};
    CHECK(told(office.look(item(Op::kWrite, "/srv/data/ab")).decision) ==
          "allow permanent_grant granted");
    CHECK(told(office.look(item(Op::kWrite, "/srv/x/ab")).decision) == "ask ask not_granted");
  }
  CHECK(office.desk.grant_count() == 0);
}

TEST_CASE("a session's grant of a command is for its words and its program") {
  Office office;
  office.with.box = false;
  office.answer(office.look(command("git status 'a b'")).step, PromptChoice::kSession);
  CHECK(told(office.look(command("git status a\\ b")).decision) == "allow session_grant granted");
  CHECK(office.look(command("git status a b")).decision.answer == GateAnswer::kAsk);
  CHECK(office.look(command("./git status 'a b'")).decision.answer == GateAnswer::kAsk);
}

TEST_CASE("B37: a reply counts for its own prompt, its own request, and what was offered") {
  Office office;
  office.with.box = false;
  const auto asked = office.look(command("git status $(id)"));
  const auto other = office.look(kWrite);
  const std::string& id = asked.step.id;
  const std::string& digest = asked.step.prompt->digest;
  const auto problem = [&](const PromptReply& reply) { return office.desk.problem_of(id, reply); };
  CHECK(problem({.id = id, .digest = digest, .choice = PromptChoice::kOnce}) == "");
  CHECK(problem({.id = other.step.id, .digest = digest}) != "");
  CHECK(problem({.id = id, .digest = other.step.prompt->digest}) != "");
  CHECK(problem({.id = id, .digest = digest, .choice = PromptChoice::kSession}) != "");
  CHECK(problem({.id = id, .digest = digest, .choice = PromptChoice::kContinue}) != "");
  CHECK(problem(
            {.id = id, .digest = digest, .choice = PromptChoice::kOnce, .for_sub_agents = true}) !=
        "");
  office.desk.give_up(id, "timeout");
  CHECK(problem({.id = id, .digest = digest, .choice = PromptChoice::kOnce}) != "");
  CHECK(office.desk.settle({.id = id, .digest = digest, .choice = PromptChoice::kOnce}, office.now)
            .ruling == Ruling::kDenied);
}

TEST_CASE("case 99, B37: a prompt shows the exact bytes, and nothing in it acts on a terminal") {
  Office office;
  office.with.box = false;
  const std::string name = "/srv/data/a\n\x1b[2J\u202egpj\u200b\\x1b\xff";
  const auto asked = office.look({item(Op::kWrite, name), command("echo b\\ c && rm -rf /srv/x"),
                                  GateItem{.operation = Op::kExec, .argv = {"echo", "\x1b]0;x"}}},
                                 "claude-code", "please\n[y] \x1b[8mhidden");
  REQUIRE(asked.step.prompt.has_value());
  const Prompt& prompt = *asked.step.prompt;
  CHECK(prompt.asks[0].text == R"(/srv/data/a\x0a\x1b[2J\u{202e}gpj\u{200b}\\x1b\xff)");
  CHECK(prompt.items[0].name == prompt.asks[0].text);
  CHECK(prompt.asks[1].text == R"(echo b\\ c && rm -rf /srv/x)");
  CHECK(prompt.asks[2].text == R"(echo '\x1b]0;x')");
  CHECK(prompt.untrusted_why == R"(please\x0a[y] \x1b[8mhidden)");
  CHECK(gate::is_shown_text(all_text(prompt)));
  // What was judged is shown, whatever the agent says it is.
  CHECK(std::ranges::any_of(prompt.items, [](const PromptItem& shown) {
    return shown.operation == Op::kExec && shown.name == "/usr/bin/rm";
  }));
}

TEST_CASE("B37: words that a shell does not read are shown one by one") {
  Office office;
  office.with.box = false;
  const auto asked = office.look(
      GateItem{.operation = Op::kExec, .argv = {"git", "a b", "it's", "", "x;y", "plain"}});
  REQUIRE(asked.step.prompt.has_value());
  CHECK(asked.step.prompt->asks[0].text == R"(git 'a b' 'it'\''s' '' 'x;y' plain)");
}

TEST_CASE("what cannot be shown whole is not asked") {
  Office office;
  std::vector<GateItem> items(gate::kMaxPromptLines, kWrite);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].target += std::to_string(i);
  }
  CHECK(office.look(items).step.next == DeskNext::kAsk);
  items.push_back(kWrite);
  CHECK(office.look(items).step.reason == "too_large_to_ask");
  // Escapes count as they are shown.
  std::vector<GateItem> long_names(4, item(Op::kWrite, "/srv/" + std::string(4000, '\x01')));
  CHECK(office.look(long_names).step.reason == "too_large_to_ask");
  office.now += gate::kAskWindow;
  const auto wordy = office.look({kWrite}, "claude-code", std::string(100'000, 'x'));
  CHECK(wordy.step.prompt->untrusted_why.size() < 600);
}

TEST_CASE("a request's text is one request's") {
  Office office;
  office.with.box = false;
  const auto text = [&](std::vector<GateItem> items) {
    const auto looked = office.look(std::move(items));
    return gate::canonical_text(looked.request, looked.decision);
  };
  const auto argv = [](std::vector<std::string> words) {
    return GateItem{.operation = Op::kExec, .argv = std::move(words)};
  };
  CHECK(text({kWrite}) == text({item(Op::kWrite, "/srv/./data/y")}));
  CHECK(text({kWrite}) != text({item(Op::kRead, "/srv/data/y")}));
  CHECK(text({kWrite}) != text({kWrite, kWrite}));
  CHECK(text({argv({"git", "a b"})}) != text({argv({"git", "a", "b"})}));
  CHECK(text({command("git a")}) != text({command("git  a")}));
  CHECK(text({item(Op::kRename, "/srv/data/x.csv", "/srv/a")}) !=
        text({item(Op::kRename, "/srv/data/x.csv", "/srv/b")}));
}

TEST_CASE("what is shown is one line of letters that are seen") {
  CHECK(gate::shown_text("plain ü 漢") == "plain ü 漢");
  CHECK(gate::shown_text("a\tb\r") == R"(a\x09b\x0d)");
  CHECK(gate::shown_text("\u00a0\u3164\U000e0041") == R"(\u{a0}\u{3164}\u{e0041})");
  CHECK(gate::shown_text("\xc3") == R"(\xc3)");
  CHECK(gate::shown_text("\\n") == R"(\\n)");
  CHECK(gate::is_shown_text("ü"));
  CHECK_FALSE(gate::is_shown_text("\u2066"));
  CHECK_FALSE(gate::is_shown_text("\xff"));
  CHECK_FALSE(gate::is_shown_text("\n"));
}
