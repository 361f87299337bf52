#include "base/text.h"
#include "guest/byte_range.h"
#include "guest/metrics.h"
#include "guest/multipart.h"
#include "guest/paths.h"
#include "guest/sha256.h"
#include "guest/users.h"
#include "tests/unit/guest/support.h"

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::guest;
using namespace sandboxkit::guest::testing;

TEST_CASE("the digest is SHA-256 (vectors of FIPS 180-4)") {
  const auto hex = [](std::string_view text) { return to_hex(sha256(text)); };
  CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("paths are made absolute and clean") {
  struct Row {
    std::string path;
    std::string expected;  // empty: refused
  };
  const Row rows[] = {{"/a/b", "/a/b"},
                      {"/a//b/./c/", "/a/b/c"},
                      {"/a/../b", "/b"},
                      {"/../..", "/"},
                      {"", "/home/user"},
                      {"~", "/home/user"},
                      {"~/x", "/home/user/x"},
                      {"x", "/home/user/x"},
                      {"../x", "/home/x"},
                      {"~x", "/home/user/~x"},
                      {std::string("a\0b", 3), ""},
                      {"/" + std::string(255, 'x'), "/" + std::string(255, 'x')},
                      {"/" + std::string(256, 'x'), ""}};
  for (const Row& row : rows) {
    CAPTURE(row.path);
    const auto path = resolve_path(row.path, "/home/user");
    CHECK(path.has_value() == !row.expected.empty());
    CHECK(path.value_or("") == row.expected);
  }
}

TEST_CASE("accounts are read from the files' text, and odd lines are passed over") {
  const Accounts accounts(
      "root:x:0:0:root:/root:/bin/bash\n# comment\nbad\nuser:x:1000:1000::/home/user:/bin/sh\n"
      "far:x:99999999999:1::/:\nodd:x:7:7::relative:\n",
      "root:x:0:\nuser:x:1000:\ndocker:x:998:user,other\n:x:\n");
  CHECK(accounts.find("user")->home == "/home/user");
  CHECK(accounts.find("user")->groups == std::vector<gid_t>{998, 1000});
  CHECK(accounts.find("1000")->name == "user");
  CHECK(accounts.find("odd")->home == "/");
  CHECK_FALSE(accounts.find("far").has_value());
  CHECK_FALSE(accounts.find("bad").has_value());
  CHECK_FALSE(accounts.find("").has_value());
  CHECK(accounts.user_name(0) == "root");
  CHECK(accounts.user_name(5) == "5");
  CHECK(accounts.group_name(998) == "docker");
}

TEST_CASE("the user of a call is the named one, or the default that fits who we are") {
  const Accounts accounts("root:x:0:0::/root:\nuser:x:1000:1000::/home/user:\nb:x:1001:1001::/b:\n",
                          "");
  const auto name = [&](std::string_view wanted, std::string_view standard, uid_t own) {
    const auto user = choose_user(accounts, wanted, standard, own, own);
    return user ? user->name : std::string(name_of(user.error().code));
  };
  CHECK(name("", "", 0) == "user");
  CHECK(name("", "b", 0) == "b");
  CHECK(name("root", "b", 0) == "root");
  CHECK(name("nobody-like-this", "", 0) == "unauthenticated");
  CHECK(name("", "", 1000) == "user");
  CHECK(name("user", "", 1000) == "user");
  CHECK(name("1000", "", 1000) == "user");
  CHECK(name("root", "", 1000) == "permission_denied");
  CHECK(name("", "", 4242) == "4242");
  CHECK(choose_user(Accounts(), "", "", 0, 0)->uid == 0);
}

TEST_CASE("ranges are read as the RFC says") {
  struct Row {
    const char* field;
    std::uint64_t size;
    RangeAnswer answer;
    std::uint64_t first;
    std::uint64_t length;
  };
  using enum RangeAnswer;
  const Row rows[] = {{"bytes=0-0", 10, kPart, 0, 1},
                      {"bytes=2-4", 10, kPart, 2, 3},
                      {"bytes=5-", 10, kPart, 5, 5},
                      {"bytes=-3", 10, kPart, 7, 3},
                      {"bytes=-30", 10, kPart, 0, 10},
                      {"bytes=8-99", 10, kPart, 8, 2},
                      {"bytes=10-", 10, kUnsatisfiable, 0, 0},
                      {"bytes=-0", 10, kUnsatisfiable, 0, 0},
                      {"bytes=4-2", 10, kWhole, 0, 0},
                      {"bytes=0-1,3-4", 10, kWhole, 0, 0},
                      {"items=0-1", 10, kWhole, 0, 0},
                      {"bytes=a-b", 10, kWhole, 0, 0},
                      {"bytes=-", 10, kWhole, 0, 0},
                      {"bytes=1--2", 10, kWhole, 0, 0},
                      {"bytes=18446744073709551616-", 10, kWhole, 0, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.field);
    const RangeDecision decision = decide_range(row.field, row.size);
    CHECK(decision.answer == row.answer);
    CHECK(decision.range.first == row.first);
    CHECK(decision.range.length == row.length);
  }
}

TEST_CASE("a form reads the same however its bytes are cut") {
  const std::string body =
      "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; "
      "filename=\"a\\\"%22\"\r\n\r\n"
      "one\r\n-b\r\n--not\r\n--b\r\n\r\nhead without fields\r\n--b\r\nContent-Disposition: "
      "form-data; name=file; filename=c\r\n\r\n\r\n--b--\r\nepilogue";
  for (std::size_t size = 1; size <= body.size(); ++size) {
    CAPTURE(size);
    std::string seen;
    MultipartParser parser("b", {.on_part =
                                     [&](const PartHead& head) {
                                       seen += "<" + head.name + "," + head.file_name + ">";
                                       return Status();
                                     },
                                 .on_data =
                                     [&](std::string_view bytes) {
                                       seen += bytes;
                                       return Status();
                                     },
                                 .on_part_end =
                                     [&] {
                                       seen += ";";
                                       return Status();
                                     }});
    for (std::size_t at = 0; at < body.size(); at += size) {
      REQUIRE(parser.feed(std::string_view(body).substr(at, size)).has_value());
    }
    REQUIRE(parser.finish().has_value());
    REQUIRE(seen == "<file,a\"\">one\r\n-b\r\n--not;<,>head without fields;<file,c>;");
  }
}

TEST_CASE("a form that is none is refused") {
  CHECK(multipart_boundary("multipart/form-data; boundary=\"a b\"") == "a b");
  CHECK_FALSE(multipart_boundary("multipart/form-data").has_value());
  CHECK_FALSE(multipart_boundary("multipart/mixed; boundary=a").has_value());
  CHECK_FALSE(
      multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'a')).has_value());
  const auto refuses = [](std::string_view body) {
    MultipartParser parser("b", {.on_part = [](const PartHead&) { return Status(); },
                                 .on_data = [](std::string_view) { return Status(); },
                                 .on_part_end = [] { return Status(); }});
    return !parser.feed(body) || !parser.finish();
  };
  CHECK(refuses(""));
  CHECK(refuses("--b"));
  CHECK(refuses("--b\r\n\r\ndata"));
  CHECK(refuses("--bad\r\n\r\ndata\r\n--b--"));
  CHECK(refuses(std::string(10'000, 'x')));
  CHECK(refuses("--b\r\n" + std::string(10'000, 'x')));
  CHECK_FALSE(refuses("--b--"));
}

TEST_CASE("metrics come from cgroup v2, v1, or the machine, whichever is there") {
  const TemporaryFolder folder;
  write_file(folder / "meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\nCached: 100 kB\n");
  const WallTime now{std::chrono::seconds(1'000)};
  const auto memory = [&] {
    Metrics metrics({.cgroup = folder / "cgroup", .proc = folder.path(), .root = "/"});
    const json::Value read = metrics.read(now);
    return std::vector<std::int64_t>{read.integer("mem_total"), read.integer("mem_used"),
                                     read.integer("mem_cache")};
  };
  CHECK(memory() == std::vector<std::int64_t>{1'024'000, 512'000, 102'400});

  std::filesystem::create_directories(folder / "cgroup/memory");
  write_file(folder / "cgroup/memory/memory.usage_in_bytes", "5000\n");
  write_file(folder / "cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file(folder / "cgroup/memory/memory.stat", "cache 1\ntotal_cache 2000\n");
  CHECK(memory() == std::vector<std::int64_t>{1'024'000, 3'000, 2'000});

  write_file(folder / "cgroup/memory.current", "7000\n");
  write_file(folder / "cgroup/memory.max", "512000\n");
  write_file(folder / "cgroup/memory.stat", "anon 1\nfile 1000\nfile_mapped 5\n");
  CHECK(memory() == std::vector<std::int64_t>{512'000, 6'000, 1'000});
}

TEST_CASE("cpu use is of the time between two calls, against the limit") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "cgroup");
  write_file(folder / "cgroup/cpu.max", "50000 100000\n");
  write_file(folder / "cgroup/cpu.stat", "usage_usec 1000000\nuser_usec 5\n");
  Metrics metrics({.cgroup = folder / "cgroup", .proc = folder.path(), .root = "/"});
  CHECK(*metrics.read(WallTime{std::chrono::seconds(10)}).find("cpu_used_pct")->as_double() == 0);
  write_file(folder / "cgroup/cpu.stat", "usage_usec 1500000\nuser_usec 5\n");
  const json::Value read = metrics.read(WallTime{std::chrono::seconds(12)});
  CHECK(*read.find("cpu_used_pct")->as_double() == doctest::Approx(50));
  CHECK(read.integer("cpu_count") == 1);
}
