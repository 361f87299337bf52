#include "docker/seccomp.h"

#include "json/value.h"

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

json::Value profile() {
  const std::string_view option = docker::seccomp_option();
  constexpr std::string_view kPrefix = "seccomp=";
  REQUIRE(option.starts_with(kPrefix));
  const auto value = json::parse(option.substr(kPrefix.size()));
  REQUIRE(value.has_value());
  return *value;
}

/// How often each call is named, and how often with a condition.
struct Rules {
  std::map<std::string, int> plain, conditional;
};

Rules rules() {
  Rules found;
  const json::Value whole = profile();
  for (const json::Value& rule : *whole.find("syscalls")->as_array()) {
    if (rule.text("action") != "SCMP_ACT_ALLOW") {
      continue;
    }
    auto& list = rule.find("args") != nullptr ? found.conditional : found.plain;
    for (const json::Value& name : *rule.find("names")->as_array()) {
      ++list[*name.as_string()];
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a system call that no rule names is refused") {
  CHECK(profile().text("defaultAction") == "SCMP_ACT_ERRNO");
  for (const auto& [name, count] : rules().plain) {
    const auto& shown = name;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    CHECK(count == 1);
  }
}

TEST_CASE("what reaches past the network or into the kernel is not allowed to a sandbox") {
  const Rules found = rules();
  for (const char* name : {"socket",
                           "socketpair",
                           "socketcall",
                           "io_uring_setup",
                           "io_uring_enter",
                           "unshare",
                           "setns",
                           "mount",
                           "move_mount",
                           "open_tree",
                           "fsopen",
                           "pivot_root",
                           "bpf",
                           "perf_event_open",
                           "keyctl",
                           "add_key",
                           "request_key",
                           "init_module",
                           "finit_module",
                           "kexec_load",
                           "open_by_handle_at",
                           "name_to_handle_at",
                           "pidfd_getfd",
                           "kcmp",
                           "userfaultfd",
                           "clock_settime",
                           "reboot",
                           "swapon",
                           "syslog",
                           "sethostname",
                           "clone",
                           "clone3",
                           "personality"}) {
    CAPTURE(name);
    CHECK_FALSE(found.plain.contains(name));
  }
  CHECK(found.conditional ==
        std::map<std::string, int>{
            {"socket", 4}, {"socketpair", 4}, {"personality", 5}, {"clone", 1}});
}

TEST_CASE("sockets are of four families, told by their whole first argument") {
  std::set<std::int64_t> families;
  const json::Value whole = profile();
  for (const json::Value& rule : *whole.find("syscalls")->as_array()) {
    if (*rule.find("names")->as_array()->front().as_string() == "socket") {
      const json::Value& condition = rule.find("args")->as_array()->front();
      CHECK(condition.integer("index", -1) == 0);
      // "Not this one" would let 0x100000028 pass, of which the kernel takes the lower half.
      CHECK(condition.text("op") == "SCMP_CMP_EQ");
      families.insert(condition.integer("value"));
    }
  }
  CHECK(families == std::set<std::int64_t>{1, 2, 10, 16});
}
