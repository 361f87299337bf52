#include "local/guest_call.h"

#include "json/value.h"
#include "wire/connect.h"

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::local;  // NOLINT(google-build-using-namespace)

namespace {

const GuestPlaces kPlaces{"/home/u/proj", "/home/u"};

wire::RequestHead head(const char* method, const char* target) {
  wire::RequestHead head;
  head.method = method;
  head.target = target;
  return head;
}

/// Every item as `op target to words...`.
std::string items_of(const Result<GuestCall>& call) {
  if (!call) {
    return "error: " + call.error().message;
  }
  std::string text;
  for (const GateItem& item : call->request.items) {
    text += text.empty() ? "" : "; ";
    text += name_of(item.operation);
    text += item.target.empty() ? "" : " " + item.target;
    text += item.to.empty() ? "" : " " + item.to;
    for (const std::string& word : item.argv) {
      text += " " + word;
    }
  }
  return text;
}

std::string files(const char* method, const char* target) {
  return items_of(read_guest_call(head(method, target), "", kPlaces));
}

std::string rpc(const std::string& method, const std::string& body) {
  const std::string target = "/" + method;
  return items_of(read_guest_call(head("POST", target.c_str()), body, kPlaces));
}

}  // namespace

TEST_CASE("a call for a file is judged as what the guest will do at the path that it will use") {
  CHECK(files("GET", "/files?path=/etc/passwd&username=user") == "read /etc/passwd");
  CHECK(files("GET", "/files?path=src/a.c") == "read /home/u/proj/src/a.c");
  CHECK(files("POST", "/files?path=%2Ftmp%2F..%2Fx") == "write /x");
  CHECK(files("PUT", "/files?path=~/notes") == "write /home/u/proj/notes");
  CHECK(files("DELETE", "/files?path=d&recursive=true") == "delete /home/u/proj/d");
}

TEST_CASE("what goes on to the guest is the path that was judged, and no account") {
  const auto call = read_guest_call(
      head("DELETE", "/files?path=a%20b/../c&recursive=true&username=root"), "", kPlaces);
  REQUIRE(call);
  CHECK(call->target == "/files?path=%2Fhome%2Fu%2Fproj%2Fc&recursive=true");
}

TEST_CASE("an upload whose names stand inside of its body is refused") {
  const auto call = read_guest_call(head("POST", "/files?username=user"), "", kPlaces);
  REQUIRE_FALSE(call);
  CHECK(call.error().field == "path");
}

TEST_CASE("each method of the file system says its operation") {
  CHECK(rpc("filesystem.Filesystem/Stat", R"({"path":"a"})") == "stat /home/u/proj/a");
  CHECK(rpc("filesystem.Filesystem/ListDir", R"({"path":"/","depth":2})") == "list /");
  CHECK(rpc("filesystem.Filesystem/MakeDir", R"({"path":"d"})") == "create /home/u/proj/d");
  CHECK(rpc("filesystem.Filesystem/Move", R"({"source":"a","destination":"/b"})") ==
        "rename /home/u/proj/a /b");
  CHECK(rpc("filesystem.Filesystem/Remove", R"({"path":"a"})") == "delete /home/u/proj/a");
  CHECK(rpc("filesystem.Filesystem/CreateWatcher", R"({"path":"a"})") == "list /home/u/proj/a");
  CHECK(rpc("filesystem.Filesystem/WatchDir", wire::connect_envelope(0, R"({"path":"a"})")) ==
        "list /home/u/proj/a");
  CHECK(rpc("filesystem.Filesystem/Chmod", R"({"path":"a"})").starts_with("error:"));
}

TEST_CASE("a process is judged by its words, where it runs, and the variables that take it over") {
  const std::string start = R"({"process":{"cmd":"/bin/bash","args":["-l","-c","ls"],
    "envs":{"LD_PRELOAD":"/tmp/x.so","API_TOKEN":"1"},"cwd":"sub"}})";
  const auto call = read_guest_call(head("POST", "/process.Process/Start"),
                                    wire::connect_envelope(0, start), kPlaces);
  CHECK(items_of(call) == "env LD_PRELOAD; exec /bin/bash -l -c ls");
  REQUIRE(call);
  CHECK(call->request.cwd == "/home/u/proj/sub");
  CHECK(items_of(read_guest_call(head("POST", "/exec"), R"({"command":["git","status"]})",
                                 kPlaces)) == "exec git status");
}

TEST_CASE("what reaches only the box's own processes and ports is not judged") {
  for (const char* target :
       {"/process.Process/Connect", "/process.Process/List", "/process.Process/SendSignal",
        "/filesystem.Filesystem/GetWatcherEvents"}) {
    CAPTURE(target);
    CHECK(items_of(read_guest_call(head("POST", target), "{}", kPlaces)).empty());
  }
  CHECK(items_of(read_guest_call(head("GET", "/health"), "", kPlaces)).empty());
  CHECK(items_of(read_guest_call(head("CONNECT", "127.0.0.1:80"), "", kPlaces)).empty());
}

TEST_CASE("a route that nobody knows, and another spelling of a known one, do not pass") {
  for (const char* target : {"/init", "/nothing", "/process.Process/Other", "/exec?x=1", "/%65xec",
                             "/filesystem.Filesystem/Mo%76e"}) {
    CAPTURE(target);
    CHECK(
        items_of(read_guest_call(head("POST", target), R"({"command":["ls"],"path":"a"})", kPlaces))
            .starts_with("error:"));
  }
}

TEST_CASE("a message that cannot be read is refused, not passed on") {
  CHECK(rpc("filesystem.Filesystem/Stat", "[]").starts_with("error:"));
  CHECK(rpc("filesystem.Filesystem/Stat", R"({"path":7})").starts_with("error:"));
  CHECK(rpc("process.Process/Start", "{}").starts_with("error:"));
  CHECK(rpc("exec", R"({"command":"ls"})").starts_with("error:"));
}
