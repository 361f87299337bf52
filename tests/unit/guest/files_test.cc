#include "guest/files.h"

#include "tests/unit/guest/support.h"

#include <cerrno>
#include <cstring>

#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/stat.h>

using namespace sandboxkit;
using namespace sandboxkit::guest::testing;

namespace {

std::string target(const std::string& path, const std::string& more = "") {
  return "/files?path=" + path + more;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  return status.st_mode & 07777;
}

std::string form(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string body;
  for (const auto& [name, text] : files) {
    body += "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
            "\"\r\nContent-Type: application/octet-stream\r\n\r\n" + text + "\r\n";
  }
  return body + "--frontier--\r\n";
}

const Fields kForm{{"Content-Type", "multipart/form-data; boundary=frontier"}};

}  // namespace

TEST_CASE("a file goes up and comes down, and its folders are made") {
  const TemporaryFolder folder;
  TestGuest guest;
  const std::string path = folder / "a/b/c.txt";
  const Answer up = guest.call("PUT", target(path), "hello");
  CHECK(up.status == 200);
  CHECK(up.body == R"([{"path":")" + path + R"(","name":"c.txt","type":"file"}])");
  CHECK(mode_of(path) == 0644);
  CHECK(mode_of(folder / "a/b") == 0755);
  const Answer down = guest.call("GET", target(path));
  CHECK(down.status == 200);
  CHECK(down.headers.at("content-length") == "5");
  CHECK(down.body == "hello");
}

TEST_CASE("64 MiB go up and come down unchanged") {
  const TemporaryFolder folder;
  TestGuest guest;
  const std::string bytes = pattern(64 << 20);
  CHECK(guest.call("POST", target(folder / "big"), bytes).status == 200);
  const Answer down = guest.call("GET", target(folder / "big"));
  CHECK(down.body.size() == bytes.size());
  CHECK((down.body == bytes));
}

TEST_CASE("a chunked upload is taken as well") {
  const TemporaryFolder folder;
  TestGuest guest;
  Client client = guest.connect();
  client.send_head("PUT", target(folder / "f"), {{"Transfer-Encoding", "chunked"}});
  client.send_bytes("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  CHECK(client.read_head().status == 200);
  CHECK(read_file(folder / "f") == "abcde");
}

TEST_CASE("an existing file keeps its mode and is replaced through a link") {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  ::chmod((folder / "real").c_str(), 0750);
  std::filesystem::create_symlink("real", folder / "link");
  TestGuest guest;
  CHECK(guest.call("PUT", target(folder / "link"), "new").status == 200);
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(read_file(folder / "real") == "new");
  CHECK(mode_of(folder / "real") == 0750);
}

TEST_CASE("an upload whose client dies leaves the old content and nothing beside it") {
  const TemporaryFolder folder;
  write_file(folder / "f", "old");
  TestGuest guest;
  Client client = guest.connect();
  client.send_head("PUT", target(folder / "f"), {{"Content-Length", "1000000"}});
  client.send_bytes(std::string(300'000, 'x'));
  CHECK(eventually([&] { return folder.entries() == 2; }));  // it is being written
  client.close();
  CHECK(eventually([&] { return folder.entries() == 1; }));
  CHECK(read_file(folder / "f") == "old");
}

TEST_CASE("a full disk is 507, and nothing is left of the upload") {
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    MESSAGE("SKIPPED: cannot mount a small tmpfs here: " << std::string(std::strerror(errno)));
    return;
  }
  TestGuest guest;
  write_file(folder / "f", "old");
  const Answer answer = guest.call("PUT", target(folder / "f"), std::string(4 << 20, 'x'));
  CHECK(answer.status == 507);
  CHECK(answer.json().integer("code") == 507);
  CHECK(answer.json().text("error") == "no_space");
  CHECK(folder.entries() == 1);
  CHECK(read_file(folder / "f") == "old");
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

TEST_CASE("a range of a file is served, and one past its end is not") {
  const TemporaryFolder folder;
  write_file(folder / "f", "0123456789");
  TestGuest guest;
  const Answer part = guest.call("GET", target(folder / "f"), "", {{"Range", "bytes=2-4"}});
  CHECK(part.status == 206);
  CHECK(part.headers.at("content-range") == "bytes 2-4/10");
  CHECK(part.body == "234");
  const Answer past = guest.call("GET", target(folder / "f"), "", {{"Range", "bytes=10-"}});
  CHECK(past.status == 416);
  CHECK(past.headers.at("content-range") == "bytes */10");
}

TEST_CASE("an empty file says that it is empty, and a file of procfs is read to its end") {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  TestGuest guest;
  CHECK(guest.call("GET", target(folder / "empty")).headers.at("content-length") == "0");
  CHECK(guest.call("GET", target("/proc/self/status")).body.find("Name:") == 0);
}

TEST_CASE("paths that cannot be files are refused, and none of them hangs") {
  const TemporaryFolder folder;
  ::mkfifo((folder / "fifo").c_str(), 0644);
  std::filesystem::create_directory(folder / "dir");
  TestGuest guest;
  struct Row {
    const char* method;
    std::string path;
    int status;
    std::string error;
  };
  const Row rows[] = {
      {"GET", folder / "none", 404, "file_not_found"},
      {"GET", folder / "dir", 400, "is_a_directory"},
      {"GET", folder / "fifo", 400, "not_a_regular_file"},
      {"GET", "/dev/zero", 400, "not_a_regular_file"},
      {"GET", folder / "a%00b", 400, "invalid_argument"},
      {"GET", "", 400, "invalid_argument"},
      {"GET", "/" + std::string(300, 'x'), 400, "invalid_argument"},
      {"PUT", folder / "dir", 400, "is_a_directory"},
      {"PUT", folder / "fifo", 400, "not_a_regular_file"},
      {"PUT", "/etc/passwd/x", 400, "not_a_directory"},
      {"PUT", "", 400, "invalid_argument"},
      {"DELETE", folder / "none", 404, "file_not_found"},
      {"DELETE", "/", 400, "invalid_argument"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.method);
    CAPTURE(row.path);
    const Answer answer = guest.call(row.method, target(row.path), "");
    CAPTURE(answer.body);
    CHECK(answer.status == row.status);
    CHECK(answer.json().text("error") == row.error);
    CHECK(answer.json().text("field") == "path");
  }
}

TEST_CASE("a path longer than the system's limit is refused by its field") {
  TestGuest guest;
  std::string path;
  for (int i = 0; i < 1'000; ++i) {
    path += "/abcde";
  }
  const Answer answer = guest.call("GET", target(path));
  CHECK(answer.status == 400);
  CHECK(answer.json().text("field") == "path");
}

TEST_CASE("relative paths and tildes start at the user's home") {
  const TemporaryFolder folder;
  TestGuest guest;
  const json::Object init{{"defaultWorkdir", folder.path()}};
  CHECK(guest.call("POST", "/init", json::dump(init)).status == 204);
  write_file(folder / "f", "here");
  CHECK(guest.call("GET", "/files?path=f").body == "here");
  CHECK(guest.call("GET", "/files?path=~/f").body == "here");
  CHECK(guest.call("GET", "/files?path=./x/../f").body == "here");
}

TEST_CASE("a directory with entries is removed only when that is asked for") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "d/e");
  write_file(folder / "d/e/f", "x");
  write_file(folder / "kept", "x");
  std::filesystem::create_symlink(folder / "kept", folder / "d/link");
  TestGuest guest;
  const Answer refused = guest.call("DELETE", target(folder / "d"));
  CHECK(refused.status == 409);
  CHECK(refused.json().text("error") == "directory_not_empty");
  CHECK(guest.call("DELETE", target(folder / "d", "&recursive=true")).status == 204);
  CHECK_FALSE(std::filesystem::exists(folder / "d"));
  CHECK(std::filesystem::exists(folder / "kept"));
}

TEST_CASE("a form writes each part to its file name, or its one part to the path") {
  const TemporaryFolder folder;
  TestGuest guest;
  const Answer two =
      guest.call("POST", "/files", form({{folder / "a", "one"}, {folder / "b", ""}}), kForm);
  CHECK(two.status == 200);
  CHECK(two.json().as_array()->size() == 2);
  CHECK(read_file(folder / "a") == "one");
  CHECK(std::filesystem::exists(folder / "b"));
  CHECK(guest.call("POST", target(folder / "c"), form({{"ignored", "three"}}), kForm).status ==
        200);
  CHECK(read_file(folder / "c") == "three");
}

TEST_CASE("a form without its last boundary replaces nothing") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  TestGuest guest;
  std::string body = form({{folder / "a", "new"}});
  body.resize(body.size() - 20);
  const Answer answer = guest.call("POST", "/files", body, kForm);
  CHECK(answer.status == 400);
  CHECK(answer.json().text("error") == "bad_multipart");
  CHECK(read_file(folder / "a") == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("what uploads cannot do is refused by name") {
  const TemporaryFolder folder;
  TestGuest guest;
  CHECK(guest.call("PUT", target(folder / "f"), "x", {{"Content-Encoding", "gzip"}}).status == 501);
  CHECK(guest.call("PUT", target(folder / "f"), "x", {{"X-Metadata-Kind", "a"}}).status == 501);
  CHECK(guest.call("PATCH", target(folder / "f"), "x").status == 405);
  CHECK(folder.entries() == 0);
}

TEST_CASE("a small file is answered while a large one is being read slowly") {
  const TemporaryFolder folder;
  write_file(folder / "large", std::string(32 << 20, 'x'));
  write_file(folder / "small", "here");
  TestGuest guest;
  Client slow = guest.connect();
  slow.send_head("GET", target(folder / "large"), {});
  const Answer head = slow.read_head();
  CHECK(guest.call("GET", target(folder / "small")).body == "here");
  CHECK(slow.read_all(head).size() == 32 << 20);
}

TEST_CASE("with an access token a file needs the token or a signature that is right and fresh") {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  write_file(path, "here");
  TestGuest guest;
  CHECK(guest.call("POST", "/init", R"({"accessToken":"secret"})").status == 204);
  const auto message = [&](const Answer& answer) { return answer.json().text("message"); };
  const auto signed_with = [&](const char* token, std::optional<std::string> until) {
    std::string signature = guest::file_signature({path, "read", "", until}, token);
    for (auto at = signature.find('+'); at != std::string::npos; at = signature.find('+')) {
      signature.replace(at, 1, "%2B");
    }
    return target(path,
                  "&signature=" + signature + (until ? "&signature_expiration=" + *until : ""));
  };
  CHECK(guest.call("GET", target(path), "", {{"X-Access-Token", "secret"}}).body == "here");
  CHECK(guest.call("GET", target(path)).status == 401);
  CHECK(message(guest.call("GET", target(path))) == "missing signature query parameter");
  CHECK(message(guest.call("GET", signed_with("wrong", {}))) == "invalid signature");
  CHECK(message(guest.call("GET", signed_with("secret", "1000"))) ==
        "signature is already expired");
  CHECK(guest.call("GET", signed_with("secret", {})).body == "here");
  CHECK(guest.call("GET", signed_with("secret", "99999999999")).body == "here");
  CHECK(message(guest.call("PUT", signed_with("secret", {}), "x")) == "invalid signature");
}
