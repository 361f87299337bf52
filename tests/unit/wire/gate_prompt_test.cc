#include "sandboxkit/gate_prompt.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

Prompt prompt() {
  return {.id = "p_1",
          .digest = "sha256:1",
          .session = "s_1",
          .agent = "tester",
          .tree = "/home/u/proj",
          .cwd = "/home/u/proj",
          .asks = {{.operation = GateOperation::kRename, .text = "/a", .to = "/b"},
                   {.operation = GateOperation::kExec, .text = R"(echo '\x1b' "ü")"}},
          .items = {{.operation = GateOperation::kRename,
                     .name = "/a",
                     .answer = GateAnswer::kAsk,
                     .reason = "not_granted",
                     .via = {"/link"}}},
          .untrusted_why = "because",
          .offers = {{PromptChoice::kOnce, {}}, {PromptChoice::kSession, {"write /a"}}}};
}

std::string with(std::string json, const std::string& what, const std::string& instead) {
  const auto at = json.find(what);
  REQUIRE(at != std::string::npos);
  return json.replace(at, what.size(), instead);
}

std::string field_of(const std::string& json) {
  const auto read = parse_prompt(json);
  return read ? "read" : read.error().field;
}

std::string reply_field_of(const std::string& json) {
  const auto read = parse_prompt_reply(json);
  return read ? "read" : read.error().field;
}

}  // namespace

TEST_CASE("a prompt and a reply come back as they went") {
  const std::string json = to_json(prompt());
  CHECK(json.find('\n') == std::string::npos);
  const auto read = parse_prompt(json);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  CHECK(to_json(*read) == json);
  CHECK(read->asks[0].to == "/b");
  CHECK(read->items[0].via.front() == "/link");
  CHECK(read->offers[1].grants.front() == "write /a");

  for (int i = 0; i <= static_cast<int>(PromptChoice::kStop); ++i) {
    const PromptReply reply{.id = "p_1",
                            .digest = "sha256:1",
                            .choice = static_cast<PromptChoice>(i),
                            .for_sub_agents = i % 2 == 0,
                            .by = "tty:u@host"};
    const auto back = parse_prompt_reply(to_json(reply));
    REQUIRE(back.has_value());
    CHECK(back->choice == reply.choice);
    CHECK(back->for_sub_agents == reply.for_sub_agents);
    CHECK(back->digest == reply.digest);
    CHECK(to_json(*back) == to_json(reply));
  }
}

TEST_CASE("B37: a prompt with a text that would act on a terminal is not read") {
  const std::string good = to_json(prompt());
  for (const char* evil : {R"(\u001b[2J)", R"(\u202e)", R"(\n)", R"(\u200b)", R"(\u2028)"}) {
    CAPTURE(std::string(evil));
    CHECK(field_of(with(good, "tester", evil)) == "agent");
    CHECK(field_of(with(good, R"("text":"/a")", "\"text\":\"" + std::string(evil) + "\"")) ==
          "asks[0].text");
    CHECK(field_of(with(good, "/link", evil)) == "items[0].via");
    CHECK(field_of(with(good, "write /a", evil)) == "offers[1].grants");
    CHECK(field_of(with(good, "because", evil)) == "untrusted_why");
  }
}

TEST_CASE("a prompt or reply that lacks something, or has more, is not read") {
  const std::string good = to_json(prompt());
  CHECK(field_of(with(good, "\"kind\":\"request\"", "\"kind\":\"other\"")) == "kind");
  CHECK(field_of(with(good, "\"digest\":\"sha256:1\",", "")) == "digest");
  CHECK(field_of(with(good, "\"op\":\"exec\"", "\"op\":\"frob\"")) == "asks[1].op");
  CHECK(field_of(with(good, "\"decision\":\"ask\"", "\"decision\":\"yes\"")) ==
        "items[0].decision");
  CHECK(field_of(with(good, "\"choice\":\"once\"", "\"choice\":\"all\"")) == "offers[0].choice");
  CHECK(field_of(with(good, "\"version\":1", "\"version\":2")) == "version");
  CHECK(field_of(with(good, "\"version\":1", "\"version\":1,\"more\":1")) == "more");

  const std::string reply = to_json(PromptReply{.id = "p_1", .digest = "sha256:1", .by = "me"});
  CHECK(reply_field_of(reply) == "read");
  // A lost choice must not read as anything.
  CHECK(reply_field_of(with(reply, "\"choice\":\"no\",", "")) == "choice");
  CHECK(reply_field_of(with(reply, "\"choice\":\"no\"", "\"choice\":\"yes\"")) == "choice");
  CHECK(reply_field_of(with(reply, "\"id\":\"p_1\",", "")) == "id");
  CHECK(reply_field_of(with(reply, "\"by\":\"me\"", R"("by":"\u001b")")) == "by");
}

TEST_CASE("prompts and replies have a size, and one byte more is not read") {
  Prompt large = prompt();
  large.asks.assign(64, {.operation = GateOperation::kRead, .text = "/x"});
  CHECK(parse_prompt(to_json(large)).has_value());
  large.asks.push_back(large.asks.front());
  CHECK(field_of(to_json(large)) == "asks");
  const std::string blanks(256 * 1024 - to_json(prompt()).size(), ' ');
  CHECK(parse_prompt(to_json(prompt()) + blanks).has_value());
  CHECK(parse_prompt(to_json(prompt()) + blanks + " ").error().code == ErrorCode::kTooLarge);
  const std::string reply = to_json(PromptReply{.id = "p_1", .digest = "d", .by = "me"});
  CHECK(parse_prompt_reply(reply + std::string(4096 - reply.size(), ' ')).has_value());
  CHECK(parse_prompt_reply(reply + std::string(4097 - reply.size(), ' ')).error().code ==
        ErrorCode::kTooLarge);
}
