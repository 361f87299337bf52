#include "tests/unit/guest/support.h"

#include <csignal>

#include <doctest/doctest.h>
#include <sys/prctl.h>

using namespace sandboxkit;
using namespace sandboxkit::guest::testing;

namespace {

/// Events of a streamed /exec, one a line.
class Events {
 public:
  Events(TestGuest& guest, json::Object request) : client_(guest.connect()) {
    request.emplace_back("stream", true);
    const std::string body = json::dump(request);
    client_.send_head("POST", "/exec", {{"Content-Length", std::to_string(body.size())}});
    client_.send_bytes(body);
    head = client_.read_head();
  }

  json::Value next() {
    for (auto end = lines_.find('\n');; end = lines_.find('\n')) {
      if (end != std::string::npos) {
        const auto event = json::parse(std::string_view(lines_).substr(0, end));
        lines_.erase(0, end + 1);
        return event.value_or(json::Value());
      }
      const auto piece = client_.read_chunk();
      if (!piece) {
        return {};
      }
      lines_ += *piece;
    }
  }

  void close() { client_.close(); }
  Answer head;

 private:
  Client client_;
  std::string lines_;
};

std::string first_line(const json::Value& answer) {
  const std::string text = answer.text("stdout");
  return text.substr(0, text.find('\n'));
}

}  // namespace

TEST_CASE("a command's output, error output and exit code come back") {
  TestGuest guest;
  const Answer answer = guest.exec(shell("echo out; echo err >&2; exit 3"));
  CHECK(answer.status == 200);
  CHECK(answer.body == R"({"exit_code":3,"signal":null,"stdout":"out\n","stderr":"err\n",)"
                       R"("truncated":false,"timed_out":false})");
}

TEST_CASE("a death by signal is named and has a shell's exit code") {
  TestGuest guest;
  const json::Value answer = guest.exec(shell("kill -TERM $$")).json();
  CHECK(answer.text("signal") == "SIGTERM");
  CHECK(answer.integer("exit_code") == 128 + SIGTERM);
}

TEST_CASE("stdin is what the caller sent, and then ends") {
  TestGuest guest;
  CHECK(guest.exec(shell("cat; echo end", {{"stdin_base64", base64_encode("a\nb\n")}}))
            .json()
            .text("stdout") == "a\nb\nend\n");
  CHECK(guest.exec(shell("cat; echo end")).json().text("stdout") == "end\n");
}

TEST_CASE("input that is larger than a pipe arrives whole") {
  TestGuest guest;
  const std::string input(2 << 20, 'x');
  const json::Value answer =
      guest.exec(shell("wc -c", {{"stdin_base64", base64_encode(input)}})).json();
  CHECK(first_line(answer) == "2097152");
}

TEST_CASE("the environment is the container's, the account's and the call's, in this order") {
  TestGuest guest({"PATH=/usr/bin:/bin", "A=container", "B=container", "HOME=/nowhere"});
  const json::Value answer = guest
                                 .exec(shell("echo $A $B; test \"$HOME\" != /nowhere && echo home",
                                             {{"env", json::Object{{"B", "call"}}}}))
                                 .json();
  CHECK(answer.text("stdout") == "container call\nhome\n");
}

TEST_CASE("a bare command is looked up in the PATH of the call") {
  const TemporaryFolder folder;
  write_file(folder / "tool", "echo from the tool\n");  // no `#!`: a shell script all the same
  std::filesystem::permissions(folder / "tool", std::filesystem::perms::owner_all);
  TestGuest guest;
  const json::Object env{{"PATH", folder.path() + ":/usr/bin:/bin"}};
  const json::Value answer =
      guest
          .exec(json::Object{
              {"command", json::Array{"tool"}}, {"env", env}, {"user", std::to_string(::getuid())}})
          .json();
  CHECK(answer.text("stdout") == "from the tool\n");
}

TEST_CASE("a command that cannot start is refused with its reason") {
  const TemporaryFolder folder;
  write_file(folder / "plain", "no program");
  TestGuest guest;
  struct Row {
    json::Object request;
    int status;
    std::string error;
    std::string field;
  };
  const Row rows[] = {
      {{{"command", json::Array{"no-such-command"}}}, 400, "command_not_found", "command"},
      {{{"command", json::Array{"/no/such"}}}, 400, "command_not_found", "command"},
      {{{"command", json::Array{folder / "plain"}}}, 403, "command_not_executable", "command"},
      {{{"command", json::Array{"true"}}, {"cwd", "/no/such"}}, 400, "cwd_not_found", "cwd"},
      {{{"command", json::Array{"true"}}, {"cwd", "/etc/passwd"}}, 400, "not_a_directory", "cwd"},
      {{{"command", json::Array{"true"}}, {"user", "nobody-like-this"}},
       400,
       "unknown_user",
       "user"},
      {{{"command", json::Array{}}}, 400, "invalid_argument", "command"},
      {{{"command", "true"}}, 400, "invalid_argument", "command"},
      {{{"command", json::Array{"true"}}, {"timeout", 1}}, 400, "unknown_field", "timeout"},
      {{{"command", json::Array{"true"}}, {"env", json::Object{{"A=B", "c"}}}},
       400,
       "invalid_argument",
       "env"},
      {{{"command", json::Array{"true", std::string(128 * 1024, 'x')}}},
       413,
       "arguments_too_large",
       "command"},
  };
  for (const Row& row : rows) {
    CAPTURE(json::dump(row.request));
    const Answer answer = guest.exec(row.request);
    CAPTURE(answer.body);
    CHECK(answer.status == row.status);
    CHECK(answer.json().text("error") == row.error);
    CHECK(answer.json().text("field") == row.field);
  }
}

TEST_CASE("a missing cwd is named in the words that clients compare") {
  TestGuest guest;
  CHECK(guest.exec(shell("true", {{"cwd", "/no/such"}})).json().text("message") ==
        "cwd '/no/such' does not exist");
}

TEST_CASE("a deadline kills what the command started too") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that the orphan comes to us and not to init
  TestGuest guest;
  const json::Value answer =
      guest.exec(shell("sleep 300 & echo $!; wait", {{"timeout_seconds", 0.3}})).json();
  CHECK(*answer.find("timed_out")->as_bool());
  CHECK(answer.text("signal") == "SIGKILL");
  CHECK(eventually([&] { return is_gone(first_line(answer)); }));
}

TEST_CASE(
    "a deadline reaches children that a shell with job control put into groups of their own") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  TestGuest guest;
  const json::Value answer =
      guest.exec(shell("set -m; sleep 300 & echo $!; wait", {{"timeout_seconds", 0.3}})).json();
  CHECK(*answer.find("timed_out")->as_bool());
  REQUIRE(!first_line(answer).empty());
  CHECK(eventually([&] { return is_gone(first_line(answer)); }));
}

TEST_CASE("a background process that keeps the pipe open does not hold up the answer") {
  TestGuest guest;
  const json::Value answer = guest.exec(shell("sleep 300 & echo $!")).json();
  CHECK(answer.integer("exit_code", -1) == 0);
  const std::string pid = first_line(answer);
  CHECK_FALSE(is_gone(pid));
  ::kill(std::stoi(pid), SIGKILL);
}

TEST_CASE("output past the limit is cut and said to be, and the command still ends well") {
  TestGuest guest;
  const json::Value answer =
      guest.exec(shell("head -c 9000000 /dev/zero | tr '\\0' a; echo done >&2")).json();
  CHECK(answer.text("stdout").size() == 8 << 20);
  CHECK(*answer.find("truncated")->as_bool());
  CHECK(answer.text("stderr") == "done\n");
  CHECK(answer.integer("exit_code", -1) == 0);
}

TEST_CASE("bytes that are not text come as base64") {
  TestGuest guest;
  const json::Value answer = guest.exec(shell("printf '\\377\\000a'; echo text >&2")).json();
  CHECK(answer.text("stdout_base64") == base64_encode(std::string_view("\xff\0a", 3)));
  CHECK(answer.text("stdout").empty());
  CHECK(answer.text("stderr") == "text\n");
  CHECK(answer.find("stderr_base64") == nullptr);
}

TEST_CASE("a stream has a start, output in pieces and an exit") {
  TestGuest guest;
  Events events(guest, shell("echo out; exit 4"));
  CHECK(events.head.headers["content-type"] == "application/x-ndjson");
  const json::Value start = events.next();
  CHECK(start.text("type") == "start");
  CHECK(start.integer("pid") > 1);
  CHECK(events.next() ==
        json::Value(json::Object{{"type", "stdout"}, {"data", base64_encode("out\n")}}));
  CHECK(json::dump(events.next()) ==
        R"({"type":"exit","exit_code":4,"signal":null,"timed_out":false})");
}

TEST_CASE("a slow reader slows the command, not the guest") {
  const TemporaryFolder folder;
  const std::string marker = folder / "written";
  TestGuest guest;
  Events events(guest, shell("head -c 4194304 /dev/zero; touch " + marker));
  CHECK(events.next().text("type") == "start");
  // Others are served meanwhile, and the command waits for us in its pipe.
  CHECK(guest.exec(shell("echo here")).json().text("stdout") == "here\n");
  CHECK_FALSE(std::filesystem::exists(marker));
  std::size_t bytes = 0;
  json::Value event = events.next();
  while (event.text("type") == "stdout") {
    bytes += base64_decode(event.text("data")).value_or("").size();
    event = events.next();
  }
  CHECK(bytes == 4194304);
  CHECK(event.integer("exit_code", -1) == 0);
  CHECK(std::filesystem::exists(marker));
}

TEST_CASE("a client that goes away ends its command") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  TestGuest guest;
  Events events(guest, shell("sleep 300 & echo $!; wait"));
  const std::string leader = std::to_string(events.next().integer("pid"));
  std::string child = base64_decode(events.next().text("data")).value_or("");
  child.pop_back();
  CHECK_FALSE(is_gone(child));
  events.close();
  CHECK(eventually([&] { return is_gone(leader) && is_gone(child); }));
}

TEST_CASE("orphans are waited for") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  TestGuest guest;
  // The outer shell is gone before the inner one, whose child then is nobody's.
  const json::Value answer = guest.exec(shell("sh -c 'sleep 0.05 & echo $!'")).json();
  const std::string orphan = first_line(answer);
  REQUIRE(!orphan.empty());
  CHECK(eventually([&] { return is_gone(orphan); }));
  CHECK(guest.reaped() >= 2);
}

TEST_CASE("signals that the guest ignores or blocks are as usual in a command") {
  TestGuest guest;
  const json::Value answer = guest.exec(shell("grep -E 'Sig(Blk|Ign)' /proc/self/status")).json();
  CHECK(answer.text("stdout") == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("a command has three descriptors and no others") {
  TestGuest guest;
  const Client idle = guest.connect();
  const json::Value answer = guest.exec(shell("ls /proc/$$/fd")).json();
  CHECK(answer.text("stdout") == "0\n1\n2\n");
}

TEST_CASE("a request that is too large is refused, and the largest that is not is read") {
  TestGuest guest;
  const std::size_t limit = 4 << 20;
  CHECK(guest.call("POST", "/exec", std::string(limit + 1, ' ')).status == 413);
  const Answer blank = guest.call("POST", "/exec", std::string(limit, ' '));
  CHECK(blank.json().text("error") == "invalid_json");
}

TEST_CASE("commands leave no descriptor open in the guest") {
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  TestGuest guest;
  Client client = guest.connect();
  const std::string requests[] = {json::dump(shell("true", {{"stdin_base64", "eA=="}})),
                                  R"({"command":["no-such-command"]})",
                                  R"({"command":["true"],"cwd":"/no/such"})"};
  for (const std::string& request : requests) {
    client.call("POST", "/exec", request);
  }
  const auto before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    for (const std::string& request : requests) {
      client.call("POST", "/exec", request);
    }
  }
  CHECK(open_descriptors() == before);
}
