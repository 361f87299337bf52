#include "guest/session.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/small_file.h"

#include <csignal>
#include <memory>
#include <string>

#include <dirent.h>

namespace sandboxkit::guest {
namespace {

constexpr std::uint64_t kMaxPid = 1U << 22;
constexpr std::size_t kMaxStatBytes = 4096;

/// Field 6 of /proc/<pid>/stat; 0 when the process has gone. The name in field 2 may hold anything.
std::uint64_t session_of(std::string_view pid) {
  const auto text = read_small_file("/proc/" + std::string(pid) + "/stat", kMaxStatBytes);
  const auto name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) {
    return 0;
  }
  const auto fields = split(std::string_view(*text).substr(name_end + 1), ' ');
  constexpr std::size_t kSession = 4;  // after the name: blank, state, ppid, pgrp, session
  return fields.size() > kSession ? parse_decimal(fields[kSession], kMaxPid).value_or(0) : 0;
}

}  // namespace

void kill_session(pid_t leader) {
  ::kill(-leader, SIGKILL);
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) {
    return;
  }
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = parse_decimal(entry->d_name, kMaxPid);
    if (pid && session_of(entry->d_name) == static_cast<std::uint64_t>(leader)) {
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
    }
  }
}

}  // namespace sandboxkit::guest
