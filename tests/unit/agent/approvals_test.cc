#include "sandboxkit/approvals.h"

#include "json/value.h"
#include "wire/approvals.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

Prompt prompt_named(const std::string& id) {
  Prompt prompt{.id = id, .digest = "sha256:" + id};
  prompt.session = "s1";
  prompt.agent = "agent";
  prompt.tree = "/w";
  prompt.cwd = "/w";
  prompt.asks = {{GateOperation::kWrite, "/srv/x"}};
  prompt.items = {{GateOperation::kWrite, "/srv/x", GateAnswer::kAsk, "not_granted"}};
  prompt.offers = {{PromptChoice::kOnce}, {PromptChoice::kNo}};
  return prompt;
}

/// Asks on a thread of its own.
class Asker {
 public:
  Asker(ApprovalBoard& board, const Prompt& prompt, std::chrono::milliseconds limit)
      : thread_([&board, prompt, limit, this](const std::stop_token& stop) {
          told_ = board.ask(prompt, std::chrono::steady_clock::now() + limit, stop);
        }) {}
  Result<PromptReply> told() {
    thread_.join();
    return *told_;
  }
  void withdraw() { thread_.request_stop(); }

 private:
  std::optional<Result<PromptReply>> told_;
  std::jthread thread_;
};

void wait_for(const ApprovalBoard& board, std::size_t count) {
  while (board.waiting().size() != count) {
    std::this_thread::yield();
  }
}

constexpr std::chrono::milliseconds kLong{60'000};

}  // namespace

TEST_CASE("a question waits on the board until somebody answers it") {
  ApprovalBoard board(system_clock());
  Asker asker(board, prompt_named("p1"), kLong);
  wait_for(board, 1);
  CHECK(board.waiting()[0].prompt.id == "p1");
  CHECK(board.waiting()[0].expires_at > board.waiting()[0].asked_at);
  REQUIRE(board.answer({.id = "p1", .digest = "sha256:p1", .choice = PromptChoice::kOnce}));
  const auto told = asker.told();
  REQUIRE(told);
  CHECK(told->choice == PromptChoice::kOnce);
  CHECK(board.waiting().empty());
  CHECK(board.answer({.id = "p1", .digest = "sha256:p1"}).error().reason == "approval_not_found");
}

TEST_CASE("an answer for something else than what waits counts for nothing") {
  ApprovalBoard board(system_clock());
  Asker asker(board, prompt_named("p1"), kLong);
  wait_for(board, 1);
  CHECK(board.answer({.id = "p2", .digest = "sha256:p1"}).error().reason == "approval_not_found");
  CHECK(board.answer({.id = "p1", .digest = "sha256:p2"}).error().reason == "approval_changed");
  const Status not_offered =
      board.answer({.id = "p1", .digest = "sha256:p1", .choice = PromptChoice::kAlwaysFolder});
  CHECK(not_offered.error().reason == "not_offered");
  CHECK(board.waiting().size() == 1);
  asker.withdraw();
  CHECK(asker.told().error().code == ErrorCode::kCancelled);
  CHECK(board.waiting().empty());
}

TEST_CASE("a question that nobody answers in time is over") {
  ApprovalBoard board(system_clock());
  Asker asker(board, prompt_named("p1"), std::chrono::milliseconds{1});
  CHECK(asker.told().error().code == ErrorCode::kDeadlineExceeded);
  CHECK(board.waiting().empty());
}

TEST_CASE("so many questions wait, and what comes on top is refused") {
  ApprovalBoard board(system_clock());
  std::vector<std::unique_ptr<Asker>> askers;
  for (std::size_t i = 0; i < ApprovalBoard::kMaxWaiting; ++i) {
    askers.push_back(std::make_unique<Asker>(board, prompt_named("p" + std::to_string(i)), kLong));
  }
  wait_for(board, ApprovalBoard::kMaxWaiting);
  const auto told =
      board.ask(prompt_named("more"), std::chrono::steady_clock::now() + kLong, std::stop_token{});
  CHECK(told.error().reason == "too_many_prompts");
  for (const auto& each : askers) {
    each->withdraw();
  }
}

TEST_CASE("what waits reads back as it was written, and strangers' lists are read strictly") {
  const std::vector<Approval> approvals{
      {prompt_named("p1"), WallTime{std::chrono::seconds(10)}, WallTime{std::chrono::seconds(70)}}};
  const auto read = wire::approvals_from_json(wire::approvals_to_json(approvals));
  REQUIRE(read);
  REQUIRE(read->size() == 1);
  CHECK(read->front().prompt.digest == "sha256:p1");
  CHECK(read->front().expires_at == approvals[0].expires_at);
  for (const char* text :
       {"{}", R"({"approvals": 1})", R"({"approvals": [{}]})",
        R"({"approvals": [{"asked_at": "now", "expires_at": "x", "prompt": {}}]})"}) {
    CAPTURE(text);
    CHECK_FALSE(wire::approvals_from_json(*json::parse(text)));
  }
}
