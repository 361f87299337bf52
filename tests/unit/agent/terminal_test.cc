// Prompts on a pseudo terminal.

#include "sandboxkit/terminal_prompt.h"

#include "io/fd.h"

#include <chrono>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{20};

/// Both ends of a terminal that is no process's own.
struct Terminal {
  io::Fd person{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  io::Fd program;

  Terminal() {
    REQUIRE(static_cast<bool>(person));
    REQUIRE(::grantpt(person.get()) == 0);
    REQUIRE(::unlockpt(person.get()) == 0);
    char name[128] = {};
    REQUIRE(::ptsname_r(person.get(), name, sizeof(name)) == 0);
    program = io::Fd(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(static_cast<bool>(program));
  }
  std::unique_ptr<PromptHandler> handler() const {
    return terminal_prompt_handler({program.get(), program.get()});
  }
  void type(const std::string& keys) const {
    REQUIRE(::write(person.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  /// What the person sees, up to `end`.
  std::string see(const std::string& end) const {
    std::string seen;
    while (seen.find(end) == std::string::npos) {
      pollfd ready{person.get(), POLLIN, 0};
      REQUIRE(::poll(&ready, 1, 20'000) == 1);
      char bytes[4096];
      const ssize_t size = ::read(person.get(), bytes, sizeof(bytes));
      REQUIRE(size > 0);
      seen.append(bytes, static_cast<std::size_t>(size));
    }
    return seen;
  }
};

Prompt prompt() {
  return {.id = "p_1",
          .digest = "sha256:1",
          .session = "s_1",
          .agent = "tester",
          .tree = "/home/u/proj",
          .cwd = "/home/u/proj",
          .asks = {{.operation = GateOperation::kWrite, .text = "/srv/y"}},
          .items = {{.operation = GateOperation::kWrite,
                     .name = "/srv/y",
                     .answer = GateAnswer::kAsk,
                     .reason = "not_granted"}},
          .untrusted_why = "because",
          .offers = {{PromptChoice::kOnce, {}},
                     {PromptChoice::kSession, {"write /srv/y"}},
                     {PromptChoice::kNo, {}}}};
}

const std::string kEnd = "Your answer: ";

/// Asks, and types `keys` when the question is there.
Result<PromptReply> answered(const Terminal& terminal, const std::string& keys,
                             std::string* seen = nullptr) {
  const auto handler = terminal.handler();
  Result<PromptReply> reply = Error{ErrorCode::kInternal, "not asked"};
  {
    std::jthread asking([&] { reply = handler->ask(prompt(), Steady::now() + kLong, {}); });
    const std::string text = terminal.see(kEnd);
    if (seen != nullptr) {
      *seen = text;
    }
    terminal.type(keys);
  }
  return reply;
}

}  // namespace

TEST_CASE("one letter and Enter is the answer") {
  struct Row {
    const char* keys;
    PromptChoice choice;
    bool for_sub_agents;
  };
  for (const Row& row :
       {Row{"o\n", PromptChoice::kOnce, false}, Row{" s \n", PromptChoice::kSession, false},
        Row{"i\n", PromptChoice::kSession, true}, Row{"n\n", PromptChoice::kNo, false},
        // What was not offered, and what is no letter, is asked once more.
        Row{"a\n\ny\nyes\no\n", PromptChoice::kOnce, false}}) {
    CAPTURE(std::string(row.keys));
    const Terminal terminal;
    const auto reply = answered(terminal, row.keys);
    REQUIRE_MESSAGE(reply.has_value(), (reply ? "" : reply.error().message));
    CHECK(reply->choice == row.choice);
    CHECK(reply->for_sub_agents == row.for_sub_agents);
    CHECK(reply->id == "p_1");
    CHECK(reply->digest == "sha256:1");
    CHECK(reply->by.starts_with("tty:"));
  }
}

TEST_CASE("a prompt shows who asks, what for, the agent's words as such, and what is granted") {
  const Terminal terminal;
  std::string seen;
  REQUIRE(answered(terminal, "n\n", &seen).has_value());
  for (const char* part :
       {"agent tester", "write  /srv/y", "may lie: because", "[o] allow this once",
        "[s] allow for this session", "      write /srv/y", "[n] no"}) {
    CAPTURE(std::string(part));
    CHECK(seen.find(part) != std::string::npos);
  }
  CHECK(seen.find("[a]") == std::string::npos);
}

TEST_CASE("B37: what came from far away does not act on the terminal either") {
  const Terminal terminal;
  const auto handler = terminal.handler();
  Prompt evil = prompt();
  evil.agent = "\x1b[2Jx";
  evil.asks[0].text = "a\nWhat that is:\u202e";
  evil.items[0].via = {"\x1b]0;y"};
  evil.offers[1].grants = {"\rnothing"};
  std::string seen;
  {
    std::jthread asking([&] { (void)handler->ask(evil, Steady::now() + kLong, {}); });
    seen = terminal.see(kEnd);
    terminal.type("n\n");
  }
  CHECK(seen.find('\x1b') == std::string::npos);
  CHECK(seen.find("\u202e") == std::string::npos);
  CHECK(seen.find("\\x0aWhat that is:\\u{202e}") != std::string::npos);
  CHECK(seen.find("\\x0dnothing") != std::string::npos);
}

TEST_CASE("what was typed before the question answers nothing") {
  const Terminal terminal;
  terminal.type("o\n");
  // The terminal has it: the line discipline has echoed it.
  terminal.see("o\r\n");
  const auto reply = answered(terminal, "n\n");
  REQUIRE(reply.has_value());
  CHECK(reply->choice == PromptChoice::kNo);
}

TEST_CASE("nobody answers, nobody can, or nobody is asked any more: an error each") {
  const Terminal terminal;
  const auto handler = terminal.handler();
  SUBCASE("the deadline") {
    const auto reply = handler->ask(prompt(), Steady::now() + std::chrono::milliseconds(5), {});
    REQUIRE_FALSE(reply.has_value());
    CHECK(reply.error().code == ErrorCode::kDeadlineExceeded);
    CHECK(terminal.see("denied").find("in time") != std::string::npos);
  }
  SUBCASE("the end of the prompt") {
    std::stop_source stop;
    Result<PromptReply> reply = PromptReply{};
    {
      std::jthread asking(
          [&] { reply = handler->ask(prompt(), Steady::now() + kLong, stop.get_token()); });
      terminal.see(kEnd);
      stop.request_stop();
    }
    REQUIRE_FALSE(reply.has_value());
    CHECK(reply.error().code == ErrorCode::kCancelled);
  }
  SUBCASE("five lines without an answer") {
    const auto reply = answered(terminal, "1\n2\n3\n4\n5\n");
    REQUIRE_FALSE(reply.has_value());
    CHECK(reply.error().reason == "no_terminal");
  }
  SUBCASE("a line without end is no answer") {
    const auto reply = answered(terminal, std::string(2000, 'o') + "\nn\n");
    REQUIRE(reply.has_value());
    CHECK(reply->choice == PromptChoice::kNo);
  }
  SUBCASE("the person hangs up") {
    const auto reply = answered(terminal, "\x04");
    REQUIRE_FALSE(reply.has_value());
    CHECK(reply.error().reason == "no_terminal");
  }
}

TEST_CASE("two questions at once are asked one after the other") {
  const Terminal terminal;
  const auto handler = terminal.handler();
  int answers = 0;
  {
    std::jthread one([&] { answers += handler->ask(prompt(), Steady::now() + kLong, {}) ? 1 : 0; });
    terminal.see(kEnd);
    std::jthread two([&] {
      // Its time ends while the first is still open.
      const auto reply = handler->ask(prompt(), Steady::now() + std::chrono::milliseconds(2), {});
      CHECK(reply.error().code == ErrorCode::kDeadlineExceeded);
    });
    two.join();
    terminal.type("o\n");
  }
  CHECK(answers == 1);
}

TEST_CASE("the terminal's settings stay as they are") {
  const Terminal terminal;
  termios before{};
  termios after{};
  REQUIRE(::tcgetattr(terminal.program.get(), &before) == 0);
  REQUIRE(answered(terminal, "n\n").has_value());
  REQUIRE(::tcgetattr(terminal.program.get(), &after) == 0);
  CHECK(before.c_lflag == after.c_lflag);
  CHECK(before.c_iflag == after.c_iflag);
}
