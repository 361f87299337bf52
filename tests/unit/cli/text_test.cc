#include "cli/text.h"

#include "base/text.h"
#include "cli/copy.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"

#include <chrono>

#include <doctest/doctest.h>

using namespace sandboxkit;       // NOLINT(google-build-using-namespace)
using namespace sandboxkit::cli;  // NOLINT(google-build-using-namespace)

TEST_CASE("a duration is read with and without units") {
  CHECK(parse_duration("90")->count() == 90);
  CHECK(parse_duration("90s")->count() == 90);
  CHECK(parse_duration("10m")->count() == 600);
  CHECK(parse_duration("1h30m")->count() == 5400);
  CHECK(parse_duration("2d")->count() == 172'800);
  for (const char* text : {"", "m", "10x", "1h30", "-1", "1.5h", " 1", "99999999999999999999"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_duration(text).has_value());
  }
}

TEST_CASE("memory is read in MiB where no unit stands") {
  CHECK(*parse_memory_mb("512") == 512);
  CHECK(*parse_memory_mb("512m") == 512);
  CHECK(*parse_memory_mb("2G") == 2048);
  CHECK(*parse_memory_mb("1.5gib") == 1536);
  for (const char* text : {"", "0", "g", "1t", "-1", "1.2.3", "nan", "1e9"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_memory_mb(text).has_value());
  }
}

TEST_CASE("a name cannot paint on the terminal") {
  CHECK(printable("plain äöü") == "plain äöü");
  CHECK(printable("a\x1b[2Jb") == "a\\x1b[2Jb");
  CHECK(printable("ä\n") == "ä\\x0a");
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("a\xe2\x80\xae"
                  "b") == "a\\xe2\\x80\\xaeb");
}

TEST_CASE("a table aligns its columns by characters and shows a dash for nothing") {
  Table table({"ID", "NAME", "STATE"});
  table.add({"i1", "größe", "running"});
  table.add({"i22", "", "stopped"});
  CHECK(table.text(0) ==
        "ID   NAME   STATE\n"
        "i1   größe  running\n"
        "i22  -      stopped\n");
}

TEST_CASE("a table keeps to the terminal's width and never cuts the first column") {
  Table table({"ID", "IMAGE", "WORKER"});
  table.add({"i0123456789abcdefghij", "a-very-long-image-name:latest", "w-1"});
  CHECK(table.text(44) ==
        "ID                     IMAGE          WORKER\n"
        "i0123456789abcdefghij  a-very-long-…  w-1\n");
  CHECK(table.text(5).find("i0123456789abcdefghij") != std::string::npos);
}

TEST_CASE("times are told from now") {
  const auto now = *parse_rfc3339("2026-11-29T12:00:00.000Z");
  CHECK(relative_time("2026-11-29T11:48:00.000Z", now) == "12m ago");
  CHECK(relative_time("2026-11-29T15:00:00.000Z", now) == "in 3h");
  CHECK(relative_time("2026-11-29T13:59:59.000Z", now) == "in 2h");
  CHECK(relative_time("2026-11-29T13:30:00.000Z", now) == "in 90m");
  CHECK(relative_time("2026-11-29T11:58:30.000Z", now) == "90s ago");
  CHECK(relative_time("2026-11-29T12:00:00.000Z", now) == "0s ago");
  CHECK(relative_time("2026-11-20T12:00:00.000Z", now) == "9d ago");
  CHECK(relative_time("", now).empty());
}

TEST_CASE("sizes and progress are told in units that people read") {
  CHECK(plain_number(2) == "2");
  CHECK(plain_number(0.5) == "0.5");
  CHECK(plain_number(100) == "100");
  CHECK(plain_number(1.0 / 3) == "0.33");
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(1ULL << 30) == "1 GiB");
  CHECK(progress_text("big", 12U << 20, 24U << 20, std::chrono::milliseconds{1000}) ==
        "big  12 MiB / 24 MiB  50%  12 MiB/s");
  CHECK(progress_text("x", 5, 0, std::chrono::milliseconds{0}) == "x  5 B");
}

TEST_CASE("a side of cp names a sandbox only when no slash comes before its colon") {
  CHECK(parse_place("box:/tmp/x").sandbox == "box");
  CHECK(parse_place("box:/tmp/x").path == "/tmp/x");
  CHECK(parse_place("box:").path.empty());
  CHECK(parse_place("./a:b").sandbox.empty());
  CHECK(parse_place("/a:b").sandbox.empty());
  CHECK(parse_place(":b").sandbox.empty());
  CHECK(parse_place("-").path == "-");
}

TEST_CASE("a path's last name is what cp makes in a directory") {
  CHECK(base_name("/a/b/") == "b");
  CHECK(base_name("b") == "b");
  CHECK(base_name("/").empty());
  CHECK(base_name("a/..").empty());
  CHECK(join_path("/a/", "b") == "/a/b");
  CHECK(join_path("/a", "b") == "/a/b");
  CHECK(join_path("", "b") == "b");
}

TEST_CASE("each kind of error has its own exit code") {
  struct Row {
    Error error;
    int code;
  };
  const std::vector<Row> rows = {
      {{ErrorCode::kInternal, "x"}, 1},
      {{ErrorCode::kInvalidArgument, "x"}, 2},
      {{ErrorCode::kPermissionDenied, "x", "owner_required"}, 3},
      {{ErrorCode::kConflict, "x", "worker_capability_unavailable"}, 3},
      {{ErrorCode::kUnavailable, "x", "no_capacity"}, 3},
      {{ErrorCode::kNotFound, "x"}, 4},
      {{ErrorCode::kUnavailable, "x"}, 5},
      {{ErrorCode::kDeadlineExceeded, "x"}, 5},
      {{ErrorCode::kUnauthenticated, "x"}, 6},
      {{ErrorCode::kPermissionDenied, "x", "command_not_executable"}, 126},
      {{ErrorCode::kInvalidArgument, "x", "command_not_found"}, 127},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error.reason);
    CHECK(exit_code_of(row.error) == row.code);
  }
}
