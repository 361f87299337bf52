#include "guest/entry_info.h"
#include "tests/unit/guest/support.h"

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::guest::testing;

namespace {

Answer filesystem(TestGuest& guest, const std::string& method, const json::Value& message) {
  return guest.rpc("filesystem.Filesystem/" + method, message);
}

json::Value at(const std::string& path) { return json::Object{{"path", path}}; }

}  // namespace

TEST_CASE("stat tells a file's type, size, mode and owner") {
  const TemporaryFolder folder;
  write_file(folder / "f", "hello");
  std::filesystem::permissions(folder / "f", std::filesystem::perms(0640));
  TestGuest guest;
  const json::Value answer = filesystem(guest, "Stat", at(folder / "f")).json();
  const json::Value& entry = *answer.find("entry");
  CHECK(entry.text("name") == "f");
  CHECK(entry.text("type") == "FILE_TYPE_FILE");
  CHECK(entry.text("path") == folder / "f");
  CHECK(entry.text("size") == "5");
  CHECK(entry.integer("mode") == 0640);
  CHECK(entry.text("permissions") == "-rw-r-----");
  CHECK(parse_rfc3339(entry.text("modifiedTime")).has_value());
  CHECK_FALSE(entry.text("owner").empty());
}

TEST_CASE("a link shows its target's type and where it leads") {
  const TemporaryFolder folder;
  write_file(folder / "real", "hello");
  std::filesystem::create_symlink("real", folder / "link");
  TestGuest guest;
  const json::Value answer = filesystem(guest, "Stat", at(folder / "link")).json();
  const json::Value& entry = *answer.find("entry");
  CHECK(entry.text("type") == "FILE_TYPE_FILE");
  CHECK(entry.text("size") == "5");
  CHECK(entry.text("permissions").front() == 'L');
  CHECK(entry.text("symlinkTarget") == std::filesystem::canonical(folder / "real").string());
}

TEST_CASE("a missing path is not found") {
  const TemporaryFolder folder;
  TestGuest guest;
  for (const char* method : {"Stat", "ListDir"}) {
    CAPTURE(method);
    const Answer answer = filesystem(guest, method, at(folder / "none"));
    CHECK(answer.status == 404);
    CHECK(answer.json().text("code") == "not_found");
  }
  const json::Object move{{"source", folder / "none"}, {"destination", folder / "x"}};
  CHECK(filesystem(guest, "Move", move).status == 404);
  CHECK(filesystem(guest, "Remove", at(folder / "none")).body == "{}");
}

TEST_CASE("a directory is made with its parents, and made twice it exists already") {
  const TemporaryFolder folder;
  TestGuest guest;
  CHECK(filesystem(guest, "MakeDir", at(folder / "a/b")).json().find("entry")->text("type") ==
        "FILE_TYPE_DIRECTORY");
  const Answer again = filesystem(guest, "MakeDir", at(folder / "a/b"));
  CHECK(again.status == 409);
  CHECK(again.json().text("code") == "already_exists");
  write_file(folder / "f", "");
  CHECK(filesystem(guest, "MakeDir", at(folder / "f")).status == 400);
}

TEST_CASE("a move makes the folders that it needs") {
  const TemporaryFolder folder;
  write_file(folder / "f", "hello");
  TestGuest guest;
  const json::Object move{{"source", folder / "f"}, {"destination", folder / "new/g"}};
  CHECK(filesystem(guest, "Move", move).json().find("entry")->text("path") == folder / "new/g");
  CHECK(read_file(folder / "new/g") == "hello");
  CHECK_FALSE(std::filesystem::exists(folder / "f"));
}

TEST_CASE("a list is sorted, goes as deep as asked, and does not enter links") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b/c/d");
  write_file(folder / "b/f", "");
  write_file(folder / "a", "");
  std::filesystem::create_directory_symlink("b", folder / "z");
  TestGuest guest;
  const auto paths = [&](int depth) {
    std::string all;
    const json::Value answer =
        filesystem(guest, "ListDir", json::Object{{"path", folder.path()}, {"depth", depth}})
            .json();
    for (const json::Value& entry : *answer.find("entries")->as_array()) {
      all += entry.text("path").substr(folder.path().size()) + " ";
    }
    return all;
  };
  CHECK(paths(0) == "/a /b /z ");
  CHECK(paths(1) == "/a /b /z ");
  CHECK(paths(2) == "/a /b /b/c /b/f /z ");
  CHECK(paths(3) == "/a /b /b/c /b/c/d /b/f /z ");
  CHECK(filesystem(guest, "ListDir", at(folder / "a")).json().text("code") == "invalid_argument");
}

TEST_CASE("remove takes a whole tree") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/b/c");
  write_file(folder / "a/b/f", "");
  TestGuest guest;
  CHECK(filesystem(guest, "Remove", at(folder / "a")).body == "{}");
  CHECK(folder.entries() == 0);
}

TEST_CASE("a user that does not exist is refused in the words that clients compare") {
  TestGuest guest;
  const Answer answer = guest.rpc("filesystem.Filesystem/Stat", at("/"),
                                  {{"Authorization", "Basic " + base64_encode("root123:")}});
  CHECK(answer.status == 401);
  CHECK(answer.body == R"({"code":"unauthenticated","message":"invalid username: 'root123'"})");
}

TEST_CASE("a list as long as the limit is given, and a longer one is refused") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  write_file(folder / "a/b", "");
  write_file(folder / "c", "");
  const guest::Accounts accounts;
  CHECK(guest::list_entries(folder.path(), 2, accounts, 3)->size() == 3);
  CHECK(guest::list_entries(folder.path(), 1, accounts, 2)->size() == 2);
  for (const int depth : {1, 2}) {
    const auto list = guest::list_entries(folder.path(), depth, accounts, depth);
    REQUIRE_FALSE(list.has_value());
    CHECK(list.error().code == ErrorCode::kResourceExhausted);
  }
}
