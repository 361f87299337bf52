#include "audit/record.h"

#include "audit/escape.h"
#include "audit/redact.h"
#include "base/text.h"
#include "json/value.h"
#include "tests/unit/audit/support.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::audit;  // NOLINT(google-build-using-namespace)

namespace {

std::string escaped(std::string_view text, std::size_t max_bytes = 1000) {
  std::string out;
  append_escaped(out, text, max_bytes);
  return out;
}

json::Value parsed(const Record& record) {
  const Fields fields = render_fields(record, test_key());
  const auto value = json::parse("{" + fields.what + fields.which + "}");
  REQUIRE_MESSAGE(value.has_value(), fields.what);
  return *value;
}

/// The bytes of an escaped text, as a reader gets them back.
std::string bytes_of(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
    } else if (text[i + 1] == '\\') {
      out += text[++i];
    } else {
      out += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    }
  }
  return out;
}

}  // namespace

// Case 99 and bypass B39 of the gate's design.
TEST_CASE("a name with line ends, escapes of a terminal or direction marks is one safe line") {
  const std::pair<std::string, std::string> rows[] = {
      {"plain/ä", "plain/ä"},
      {"a\nb", R"(a\\x0ab)"},
      {"\x1b[2J", R"(\\x1b[2J)"},
      {std::string("n\0l", 3), R"(n\\x00l)"},
      {"x\u202ey", R"(x\\xe2\\x80\\xaey)"},
      {"x\u2028y", R"(x\\xe2\\x80\\xa8y)"},
      {"\u0085", R"(\\xc2\\x85)"},
      {"\x7f", R"(\\x7f)"},
      {"bad\xff", R"(bad\\xff)"},
      {"\xe2\x80", R"(\\xe2\\x80)"},
      {R"(a\b)", R"(a\\\\b)"},
      {R"(a"b)", R"(a\"b)"},
      {R"(","h":"x"})", R"(\",\"h\":\"x\"})"},
  };
  for (const auto& row : rows) {
    const std::string& text = row.first;
    const std::string& expected = row.second;
    CAPTURE(expected);
    CHECK(escaped(text) == expected);
    Record record = decision(Verdict::kAllow, "read", text);
    const Fields fields = render_fields(record, test_key());
    CHECK_FALSE(has_control_characters(fields.what));
    CHECK(is_utf8(fields.what));
    const json::Value value = parsed(record);
    const std::string read = value.find("items")->as_array()->front().text("requested");
    CHECK_FALSE(has_control_characters(read));
    CHECK(bytes_of(read) == text);
  }
}

TEST_CASE("no two texts of two bytes look alike, and each comes back") {
  std::vector<std::string> all;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b)};
      const auto value = json::parse("\"" + escaped(text) + "\"");
      REQUIRE(value.has_value());
      REQUIRE(bytes_of(*value->as_string()) == text);
    }
  }
}

TEST_CASE("a text is cut at its limit and not one byte before it") {
  CHECK(escaped(std::string(10, 'a'), 10) == "aaaaaaaaaa");
  CHECK(escaped(std::string(11, 'a'), 10) == "aaaaaaa…");
  CHECK(escaped("aaaa\n", 10) == R"(aaaa\\x0a)" + std::string());
  CHECK(escaped("aaaaaa\n", 10) == "aaaaaa…");
  CHECK(escaped("ääääää", 10) == "äää…");
  std::string out;
  CHECK(append_escaped(out, "aaaaaaaaaa", 10));
  CHECK_FALSE(append_escaped(out, "aaaaaaaaaaa", 10));
}

TEST_CASE("a record has the members of the design, and none that is empty") {
  Record record = decision(Verdict::kDeny, "read", "/home/u/.ssh/id_rsa");
  record.request = "r7";
  record.rule = "~/.ssh";
  record.source = "built in";
  record.reason = "denied";
  record.policy_generation = 4;
  record.mode = "strict";
  record.box = {"b1", "native", "full"};
  record.by = "gate";
  record.duration_us = 12;
  record.items[0].device = 65024;
  record.items[0].inode = 77;
  const Fields fields = render_fields(record, test_key());
  CHECK(
      fields.what + fields.which ==
      R"("kind":"decision","session":"s1","agent":"tester","items":[{"op":"read",)"
      R"("requested":"/home/u/.ssh/id_rsa","canonical":"/home/u/.ssh/id_rsa","dev":65024,"ino":77}],)"
      R"("decision":"deny","branch":"work_tree","rule":"~/.ssh","source":"built in",)"
      R"("reason":"denied","gen":4,"mode":"strict",)"
      R"("box":{"id":"b1","backend":"native","strength":"full"},"by":"gate","req":"r7","dur_us":12)");
  CHECK(render_fields(Record{}, test_key()).what == R"("kind":"decision")");
}

TEST_CASE("however large a record is, its line has a limit and says that something was cut") {
  Record record = decision(Verdict::kAllow, "exec", std::string(100'000, '\x01'));
  for (std::string* text :
       {&record.session, &record.agent, &record.rule, &record.source, &record.reason, &record.grant,
        &record.mode, &record.by, &record.request, &record.box.id}) {
    text->assign(100'000, '"');
  }
  record.items[0].argv.assign(2 * kMaxArguments, std::string(2000, '\xff'));
  record.items.resize(4 * kMaxItems, record.items[0]);
  const json::Value value = parsed(record);
  const Fields fields = render_fields(record, test_key());
  CHECK(fields.what.size() + fields.which.size() <= kMaxFieldsBytes);
  CHECK(*value.find("cut")->as_bool());
  const std::size_t shown = value.find("items")->as_array()->size();
  CHECK(shown >= 1);
  CHECK(value.integer("more_items") == static_cast<std::int64_t>(4 * kMaxItems - shown));
}

TEST_CASE("items are shown up to their number, and one more is counted") {
  Record record = decision(Verdict::kAllow, "read", "/x");
  record.items.resize(kMaxItems, record.items[0]);
  CHECK(parsed(record).find("cut") == nullptr);
  record.items.push_back(record.items[0]);
  CHECK(parsed(record).integer("more_items") == 1);
  CHECK(parsed(record).find("items")->as_array()->size() == kMaxItems);
}

TEST_CASE("arguments are shown up to their number") {
  Record record = decision(Verdict::kAllow, "exec", "/bin/x");
  record.items[0].argv.assign(kMaxArguments, "a");
  CHECK(parsed(record).find("cut") == nullptr);
  record.items[0].argv.push_back("a");
  CHECK(*parsed(record).find("cut")->as_bool());
}

TEST_CASE("a variable's value is not written, however it comes") {
  const json::Value value = parsed(decision(Verdict::kAllow, "env", "AWS_REGION=eu-1"));
  CHECK(value.find("items")->as_array()->front().text("requested") == "AWS_REGION");
}

TEST_CASE("what must be on the disk before its answer counts, and what may be counted") {
  struct Row {
    Kind kind;
    Verdict verdict;
    const char* operation;
    bool sync;
    bool fold;
  };
  const Row rows[] = {
      {Kind::kDecision, Verdict::kAllow, "read", false, true},
      {Kind::kDecision, Verdict::kAllow, "stat", false, true},
      {Kind::kDecision, Verdict::kAllow, "write", false, false},
      {Kind::kDecision, Verdict::kAllow, "rename", false, false},
      {Kind::kDecision, Verdict::kAllow, "exec", true, false},
      {Kind::kDecision, Verdict::kAllow, "connect", true, false},
      {Kind::kDecision, Verdict::kAllow, "unix", true, false},
      {Kind::kDecision, Verdict::kAllow, "frob", true, false},
      {Kind::kDecision, Verdict::kDeny, "read", true, false},
      {Kind::kDecision, Verdict::kAsk, "read", true, false},
      {Kind::kDecision, Verdict::kNone, "read", true, false},
      {Kind::kAsk, Verdict::kAllow, "read", true, false},
      {Kind::kAnswer, Verdict::kAllow, "read", true, false},
      {Kind::kGrant, Verdict::kAllow, "read", true, false},
      {Kind::kViolation, Verdict::kAllow, "read", true, false},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.operation));
    Record record = decision(row.verdict, row.operation, "/x");
    record.kind = row.kind;
    CHECK(must_sync(record) == row.sync);
    CHECK(may_fold(record) == row.fold);
  }
  Record nothing;
  nothing.decision = Verdict::kAllow;
  CHECK(must_sync(nothing));
  Record mixed = decision(Verdict::kAllow, "read", "/x");
  mixed.items.push_back({.operation = "exec", .requested = "x"});
  CHECK(must_sync(mixed));
}

TEST_CASE("credentials in a command are hidden") {
  const Key salt = test_key();
  const std::string kSecret = "hunter2-hunter2";
  const std::vector<std::vector<std::string>> rows = {
      {"mysql", "--password=hunter2-hunter2", "db"},
      {"mysql", "--password", "hunter2-hunter2"},
      {"tool", "--api-key", "hunter2-hunter2"},
      {"tool", "--API_KEY=hunter2-hunter2"},
      {"env", "GITHUB_TOKEN=hunter2-hunter2", "gh"},
      {"curl", "-H", "Authorization: Bearer hunter2-hunter2", "https://x.test"},
      {"curl", "-H", "Authorization: hunter2-hunter2"},
      {"curl", "-HX-Api-Key: hunter2-hunter2"},
      {"curl", "-H", "Cookie: a=1; sid=hunter2-hunter2"},
      {"curl", "-u", "user:hunter2-hunter2", "https://x.test"},
      {"git", "clone", "https://user:hunter2-hunter2@x.test/r.git"},
      {"git", "clone", "https://hunter2-hunter2@x.test/r.git"},
      {"curl", "https://x.test/?a=1&access_token=hunter2-hunter2&b=2"},
      {"psql", "postgres://u:p@hunter2-hunter2@x.test/db"},
      {"sh", "-c", "PASSWORD=hunter2-hunter2 deploy"},
      {"sh", "-c", "deploy --token 'hunter2-hunter2 and more'"},
      {"sh", "-c", "sh -c \"sh -c 'sh -c \\\"x --secret hunter2-hunter2\\\"'\""},
      {"sh", "-c", "a\"b --password hunter2-hunter2\""},
      {"x", "--json", R"({"user":"a","password":"hunter2-hunter2"})"},
      {"x", "--password=a b,hunter2-hunter2"},
  };
  for (const auto& argv : rows) {
    std::string shown;
    for (const std::string& word : redact_argv(argv, salt)) {
      shown += word + " ";
    }
    CAPTURE(shown);
    CHECK(shown.find(kSecret) == shown.npos);
    CHECK(shown.find("[redacted:") != shown.npos);
    CHECK(shown.starts_with(argv[0] + " "));
  }
}

TEST_CASE("tokens are known by how they begin") {
  for (const char* token :
       {"ghp_0123456789abcdefghij", "sk-proj-0123456789abcdef", "AKIA0123456789ABCDEF",
        "glpat-0123456789abcdef", "xoxb-0123456789-abcdef", "eyJhbGciOiJIUzI1NiJ9.e30.x",
        "jt_0123456789ab_0123456789"}) {
    CAPTURE(std::string(token));
    CHECK(redact_text("x " + std::string(token) + " y", test_key()).find(token) ==
          std::string::npos);
    CHECK(redact_text("x=" + std::string(token), test_key()).find(token) == std::string::npos);
    CHECK(redact_argv({"echo", token}, test_key())[1].find(token) == std::string::npos);
  }
}

TEST_CASE("a command without a credential stays as it is") {
  const std::vector<std::string> argv = {"git",
                                         "commit",
                                         "-m",
                                         "fix: the author's name",
                                         "--author",
                                         "A U Thor <a@b.test>",
                                         "src/a.c:12",
                                         "--jobs=4",
                                         "https://x.test/a?b=c&d=e#f",
                                         "sk-short"};
  CHECK(redact_argv(argv, test_key()) == argv);
  const std::string command = "cd /x && make -j4 | tee log; echo \"a b\" 'c d' > out";
  CHECK(redact_text(command, test_key()) == command);
}

TEST_CASE("the same credential is the same under one key, and nothing under another") {
  const auto shown = [](std::uint8_t key) {
    return redact_argv({"x", "--password", "a-secret"}, test_key(key))[2];
  };
  CHECK(shown(1) == shown(1));
  CHECK(shown(1) != shown(2));
  CHECK(redact_argv({"x", "--password=a-secret"}, test_key())[1] == "--password=" + shown(1));
}
