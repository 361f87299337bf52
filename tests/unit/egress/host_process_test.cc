#include "egress/host_process.h"

#include "egress/config.h"
#include "egress/line_log.h"
#include "io/fd.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress;  // NOLINT(google-build-using-namespace)

namespace {

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "sandboxkit-log-XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  io::Fd open(const char* name) const {
    return io::Fd(::open((path + name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  std::string text(const char* name) const {
    std::ifstream file(path + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

void write_and_flush(io::EventLoop& loop, LineLog& log, const json::Value& line) {
  log.write(line);
  loop.run_once(io::EventLoop::Duration{1000});
}

std::string policy_with(const std::string& refused) {
  return R"({"listen": "127.0.0.1:3128", "allowed_domains": [], "policy_hash": "h",
             "refused_networks": )" +
         refused + "}";
}

}  // namespace

TEST_CASE("two files of a log take turns, stay bounded, and the last line is always there") {
  const Folder folder;
  const io::Fd one = folder.open("/one");
  const io::Fd two = folder.open("/two");
  io::EventLoop loop;
  LineLog log(loop, one.get(), two.get());
  const std::string big(200 * 1024, 'x');
  constexpr int kLines = 64;  // Three times what one file holds.
  for (int i = 0; i < kLines; ++i) {
    write_and_flush(loop, log, json::Object{{"n", i}, {"text", big}});
  }
  CHECK(log.dropped() == 0);
  const std::string all = folder.text("/one") + folder.text("/two");
  CHECK(all.size() < 2 * LineLog::kMaxFileBytes + 2 * LineLog::kMaxBufferedBytes);
  CHECK(all.find("{\"n\":63,") != std::string::npos);
  CHECK(all.find("{\"n\":0,") == std::string::npos);
}

TEST_CASE("a full disk costs the log its lines, and neither ends it nor waits") {  // 74
  const io::Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  io::EventLoop loop;
  LineLog log(loop, full.get());
  for (int i = 0; i < 3; ++i) {
    write_and_flush(loop, log, json::Object{{"n", i}});
  }
  CHECK(log.dropped() == 3);
}

TEST_CASE("a log that could not be opened costs lines alone") {
  io::EventLoop loop;
  LineLog log(loop, -1, -1);
  write_and_flush(loop, log, json::Object{{"n", 1}});
  CHECK(log.dropped() == 1);
}

TEST_CASE("networks that no policy lifts are read strictly") {
  const auto good = parse_config(policy_with(R"(["10.231.0.0/16", "172.17.0.0/16"])"));
  REQUIRE(good);
  REQUIRE(good->refused_networks.size() == 2);
  CHECK(good->refused_networks[0].contains(*IpAddress::parse("10.231.255.1")));
  CHECK_FALSE(good->refused_networks[0].contains(*IpAddress::parse("10.232.0.1")));
  for (const char* bad : {R"(["10.231.0.1/16"])", R"(["10.231.0.0"])", R"(["10.231.0.0/33"])",
                          R"(["x/8"])", R"([7])", R"("10.0.0.0/8")"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_config(policy_with(bad)).has_value());
  }
}

TEST_CASE("a process on the host is told its descriptors and folder, and nothing else is taken") {
  const auto process =
      read_host_process({"--listener-fd", "3", "--control-fd", "4", "--config-dir", "/x"});
  REQUIRE(process);
  CHECK(process->listener_fd == 3);
  CHECK(process->control_fd == 4);
  CHECK(process->config_dir == "/x");
  CHECK_FALSE(read_host_process({"--listener-fd", "3"}));
  CHECK_FALSE(read_host_process({"--listener-fd", "-1", "--control-fd", "4", "--config-dir", "/"}));
  CHECK_FALSE(read_host_process({"--listener-fd", "3x", "--control-fd", "4", "--config-dir", "/"}));
}

TEST_CASE("a process on the host without the sockets it needs opens nothing") {
  CHECK(run_host_process({.config_dir = "/nowhere", .listener_fd = 0, .control_fd = 1}) != 0);
}
