#include "tests/unit/guest/support.h"

#include <csignal>

#include <doctest/doctest.h>
#include <sys/prctl.h>

using namespace sandboxkit;
using namespace sandboxkit::guest::testing;

namespace {

constexpr const char* kStart = "process.Process/Start";
constexpr const char* kConnect = "process.Process/Connect";

json::Object script(const std::string& text, json::Object more = {}) {
  json::Object request{
      {"process", json::Object{{"cmd", "/bin/sh"}, {"args", json::Array{"-c", text}}}}};
  for (auto& member : more) {
    request.push_back(std::move(member));
  }
  return request;
}

json::Value of_pid(std::int64_t pid) { return json::Object{{"pid", pid}}; }

json::Object input(std::int64_t pid, const char* kind, std::string_view bytes) {
  return {{"process", of_pid(pid)}, {"input", json::Object{{kind, base64_encode(bytes)}}}};
}

std::string end_error(const std::string& code, const std::string& message) {
  return json::dump(json::Object{{"error", json::Object{{"code", code}, {"message", message}}}});
}

}  // namespace

TEST_CASE("a start streams its output in envelopes and ends with the exit code") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("echo out; echo err >&2; exit 3"));
  CHECK(stream.head.status == 200);
  CHECK(stream.head.headers["content-type"] == "application/connect+json");
  CHECK(stream.event("start").integer("pid") > 1);
  CHECK(stream.finish() == "{}");
  CHECK(stream.data ==
        std::map<std::string, std::string>{{"stdout", "out\n"}, {"stderr", "err\n"}});
  CHECK(json::dump(stream.end) ==
        R"({"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"})");
}

TEST_CASE("success has no error text") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("exit 0"));
  CHECK(stream.finish() == "{}");
  CHECK(json::dump(stream.end) == R"({"exitCode":0,"exited":true,"status":"exit status 0"})");
}

TEST_CASE("a killed process ends with the words that clients compare") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("sleep 300"));
  const auto pid = stream.event("start").integer("pid");
  const json::Object kill{{"process", of_pid(pid)}, {"signal", "SIGNAL_SIGKILL"}};
  CHECK(guest.rpc("process.Process/SendSignal", kill).body == "{}");
  CHECK(stream.finish() == "{}");
  CHECK(json::dump(stream.end) ==
        R"({"exitCode":-1,"exited":false,"status":"signal: killed","error":"signal: killed"})");
}

TEST_CASE("a start that fails says so in the last envelope") {
  TestGuest guest;
  json::Object missing_cwd{{"process", json::Object{{"cmd", "true"}, {"cwd", "/no/such"}}}};
  RpcStream cwd(guest, kStart, missing_cwd);
  CHECK(cwd.head.status == 200);
  CHECK(cwd.finish() == end_error("invalid_argument", "cwd '/no/such' does not exist"));

  RpcStream user(guest, kStart, script("true"),
                 {{"Authorization", "Basic " + base64_encode("root123:")}});
  CHECK(user.finish() == end_error("unauthenticated", "invalid username: 'root123'"));
}

TEST_CASE("stdin is taken piece by piece until it is closed") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("cat"));
  const auto pid = stream.event("start").integer("pid");
  CHECK(guest.rpc("process.Process/SendInput", input(pid, "stdin", "a")).body == "{}");
  CHECK(guest.rpc("process.Process/SendInput", input(pid, "stdin", "")).body == "{}");
  CHECK(guest.rpc("process.Process/SendInput", input(pid, "stdin", "b")).body == "{}");
  CHECK(guest.rpc("process.Process/CloseStdin", json::Object{{"process", of_pid(pid)}}).body ==
        "{}");
  CHECK(stream.finish() == "{}");
  CHECK(stream.data["stdout"] == "ab");
}

TEST_CASE("stdin that was not asked for cannot be written") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("sleep 300", {{"stdin", false}}));
  const auto pid = stream.event("start").integer("pid");
  const Answer answer = guest.rpc("process.Process/SendInput", input(pid, "stdin", "a"));
  CHECK(answer.status == 500);
  CHECK(answer.json().text("code") == "internal");
}

TEST_CASE("calls on a process that is not there are not found") {
  TestGuest guest;
  const json::Value nobody = of_pid(4'000'000);
  const json::Object requests[] = {input(4'000'000, "stdin", "a"),
                                   {{"process", nobody}},
                                   {{"process", nobody}, {"signal", "SIGNAL_SIGTERM"}},
                                   {{"process", json::Object{{"tag", "nobody"}}}}};
  const char* methods[] = {"SendInput", "CloseStdin", "SendSignal", "Update"};
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(methods[i]);
    const Answer answer = guest.rpc(std::string("process.Process/") + methods[i], requests[i]);
    CHECK(answer.status == 404);
    CHECK(answer.json().text("code") == "not_found");
  }
  RpcStream stream(guest, kConnect, json::Object{{"process", nobody}});
  CHECK(stream.finish() == end_error("not_found", "process with pid 4000000 not found"));
}

TEST_CASE("a list shows what runs and how it was asked for") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("sleep 300", {{"tag", "mine"}}));
  const auto pid = stream.event("start").integer("pid");
  CHECK(guest.rpc("process.Process/List", json::Object{}).body ==
        R"({"processes":[{"config":{"cmd":"/bin/sh","args":["-c","sleep 300"],"envs":{}},"pid":)" +
            std::to_string(pid) + R"(,"tag":"mine"}]})");
}

TEST_CASE("a client that goes away leaves its process running, and another finds it by tag") {
  TestGuest guest;
  RpcStream first(guest, kStart, script("read line; echo got $line", {{"tag", "mine"}}));
  const auto pid = first.event("start").integer("pid");
  first.close();
  RpcStream second(guest, kConnect, json::Object{{"process", json::Object{{"tag", "mine"}}}});
  CHECK(second.event("start").integer("pid") == pid);
  CHECK(guest.rpc("process.Process/SendInput", input(pid, "stdin", "x\n")).body == "{}");
  CHECK(second.finish() == "{}");
  CHECK(second.data["stdout"] == "got x\n");
}

TEST_CASE("output that nobody heard is kept, its end at least, and so is the exit") {
  const TemporaryFolder folder;
  TestGuest guest;
  RpcStream first(guest, kStart,
                  script("read line; head -c 200000 /dev/zero | tr '\\0' a; echo end; exit 5"));
  const auto pid = first.event("start").integer("pid");
  first.close();
  CHECK(eventually([&] {
    return guest.rpc("process.Process/SendInput", input(pid, "stdin", "go\n")).status == 500 ||
           guest.rpc("process.Process/List", json::Object{}).body == R"({"processes":[]})";
  }));
  CHECK(eventually([&] {
    return guest.rpc("process.Process/List", json::Object{}).body == R"({"processes":[]})";
  }));
  RpcStream late(guest, kConnect,
                 json::Object{{"process", json::Object{{"pid", std::to_string(pid)}}}});
  CHECK(late.event("start").integer("pid") == pid);
  CHECK(late.finish() == "{}");
  CHECK(late.data["stdout"].size() <= 64 * 1024);
  CHECK(late.data["stdout"].ends_with("aaaa\x65nd\n"));
  CHECK(late.end.integer("exitCode") == 5);
}

TEST_CASE("a start's deadline kills the process and is named") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  TestGuest guest;
  RpcStream stream(guest, kStart, script("sleep 300 & wait"), {{"Connect-Timeout-Ms", "200"}});
  const std::string pid = std::to_string(stream.event("start").integer("pid"));
  CHECK(stream.finish() ==
        end_error("deadline_exceeded", "the command's deadline of 200 ms passed: process " + pid +
                                           " and its session were killed"));
  CHECK(eventually([&] { return is_gone(pid); }));
}

TEST_CASE("a connect's deadline ends the stream alone") {
  TestGuest guest;
  RpcStream first(guest, kStart, script("sleep 300"));
  const auto pid = first.event("start").integer("pid");
  RpcStream second(guest, kConnect, json::Object{{"process", of_pid(pid)}},
                   {{"Connect-Timeout-Ms", "50"}});
  CHECK(second.finish().find("deadline_exceeded") != std::string::npos);
  CHECK_FALSE(is_gone(std::to_string(pid)));
}

TEST_CASE("silence is filled with keepalives as often as the client asks") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("sleep 300"), {{"Keepalive-Ping-Interval", "1"}});
  stream.event("start");
  CHECK(stream.event("keepalive").as_object() != nullptr);
}

TEST_CASE("a terminal has the asked size, takes input, and can be resized") {
  TestGuest guest;
  const json::Object size{{"size", json::Object{{"cols", 100}, {"rows", 30}}}};
  RpcStream stream(guest, kStart,
                   script("stty -echo; stty size; echo $TERM; read x; stty size", {{"pty", size}}));
  const auto pid = stream.event("start").integer("pid");
  std::string seen;
  while (seen.find("xterm-256color\r\n") == std::string::npos) {
    const std::string piece = base64_decode(stream.event("data").text("pty")).value_or("");
    REQUIRE(!piece.empty());
    seen += piece;
  }
  CHECK(seen == "30 100\r\nxterm-256color\r\n");
  const json::Object bigger{
      {"process", of_pid(pid)},
      {"pty", json::Object{{"size", json::Object{{"cols", 120}, {"rows", 40}}}}}};
  CHECK(guest.rpc("process.Process/Update", bigger).body == "{}");
  CHECK(guest.rpc("process.Process/SendInput", input(pid, "pty", "\n")).body == "{}");
  CHECK(stream.finish() == "{}");
  CHECK(stream.data["pty"] == "40 120\r\n");
}

TEST_CASE("a size that no terminal has is refused") {
  TestGuest guest;
  const json::Object size{{"size", json::Object{{"cols", 0}, {"rows", 30}}}};
  RpcStream stream(guest, kStart, script("true", {{"pty", size}}));
  CHECK(stream.finish().find("invalid_argument") != std::string::npos);
}

TEST_CASE("calls that are not built yet, and codecs that are not spoken, are refused") {
  TestGuest guest;
  for (const char* method :
       {"process.Process/StreamInput", "process.Process/Nothing", "filesystem.Filesystem/WatchDir",
        "filesystem.Filesystem/CreateWatcher"}) {
    CAPTURE(method);
    const Answer answer = guest.rpc(method, json::Object{});
    CHECK(answer.status == 501);
    CHECK(answer.json().text("code") == "unimplemented");
  }
  const Answer binary =
      guest.call("POST", "/process.Process/List", "", {{"Content-Type", "application/proto"}});
  CHECK(binary.status == 400);
  const Answer zipped =
      guest.call("POST", "/process.Process/List", "{}",
                 {{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}});
  CHECK(zipped.status == 501);
}

TEST_CASE("a request that is no message is invalid") {
  TestGuest guest;
  const Answer answer =
      guest.call("POST", "/process.Process/List", "{", {{"Content-Type", "application/json"}});
  CHECK(answer.status == 400);
  CHECK(answer.json().text("code") == "invalid_argument");
}

TEST_CASE("a process has sixteen listeners and not one more") {
  TestGuest guest;
  RpcStream first(guest, kStart, script("sleep 300"));
  const auto pid = first.event("start").integer("pid");
  std::vector<std::unique_ptr<RpcStream>> others;
  for (int i = 1; i < 16; ++i) {
    others.push_back(
        std::make_unique<RpcStream>(guest, kConnect, json::Object{{"process", of_pid(pid)}}));
    CHECK(others.back()->event("start").integer("pid") == pid);
  }
  RpcStream last(guest, kConnect, json::Object{{"process", of_pid(pid)}});
  CHECK(last.finish() == end_error("resource_exhausted", "process has too many listeners"));
}

TEST_CASE("input waits for a process that does not read, up to a limit") {
  TestGuest guest;
  RpcStream stream(guest, kStart, script("sleep 300"));
  const auto pid = stream.event("start").integer("pid");
  // Its answer is held back until the process reads.
  Client waiting = guest.connect();
  const std::string large = json::dump(input(pid, "stdin", std::string(1 << 20, 'x')));
  waiting.send_head(
      "POST", "/process.Process/SendInput",
      {{"Content-Type", "application/json"}, {"Content-Length", std::to_string(large.size())}});
  waiting.send_bytes(large);
  const auto send_more = [&] {
    return guest.rpc("process.Process/SendInput", input(pid, "stdin", "y"));
  };
  CHECK(eventually([&] { return send_more().json().text("code") == "resource_exhausted"; }));
}
