#include "box/proxy.h"

#include "base/text.h"
#include "box/kernel_calls.h"
#include "io/child_process.h"
#include "json/value.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <map>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace sandboxkit::box {
namespace {

constexpr mode_t kOwnFile = 0600;
constexpr int kStopMs = 2'000;
constexpr std::size_t kMaxLine = 64 * 1024;
constexpr std::array<const char*, 2> kLogs{"/decisions.0.log", "/decisions.1.log"};

json::Array strings(const std::vector<std::string>& list) { return {list.begin(), list.end()}; }

std::string policy_text(const ProxyOrder& order) {
  json::Object hosts;
  for (const std::string& entry : order.hosts) {
    const std::size_t equals = entry.find('=');
    hosts.emplace_back(entry.substr(0, equals),
                       equals == std::string::npos ? "" : entry.substr(equals + 1));
  }
  json::Object file{{"listen", "127.0.0.1:" + std::to_string(order.port)},
                    {"allowed_domains", strings(order.policy.allowed_domains())},
                    {"allowed_networks", strings(order.policy.allowed_networks())},
                    {"hosts", std::move(hosts)},
                    {"policy_hash", "box"}};
  if (order.policy.strict_tls()) {
    file.emplace_back("strict_tls", true);
  }
  return json::dump(file);
}

Status write_policy(const std::string& path, const std::string& text) {
  const io::Fd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return io::error_from_errno("policy of the proxy", errno);
  }
  return {};
}

}  // namespace

Result<Proxy> Proxy::start(const ProxyOrder& order, io::Fd listener) {
  if (Status written = write_policy(order.folder + "/policy.json", policy_text(order)); !written) {
    return written.error();
  }
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return io::error_from_errno("socketpair", errno);
  }
  io::Fd ours(ends[0]);
  const io::Fd theirs(ends[1]);
  auto child = io::spawn(
      {order.program,
       {"--listener-fd", "3", "--control-fd", "4", "--config-dir", order.folder, "--same-user"},
       {listener.get(), theirs.get()}});
  if (!child) {
    return child.error();
  }
  return Proxy(order.folder, std::move(ours), std::move(child->pidfd));
}

void Proxy::stop() {
  if (!pidfd_) {
    return;
  }
  control_.reset();  // Its end is the proxy's.
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (poll(&ended, 1, kStopMs) != 1) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
    poll(&ended, 1, kStopMs);
  }
  siginfo_t info{};
  waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  pidfd_.reset();
}

std::vector<RefusedTarget> Proxy::refused() const {
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts;
  for (const char* log : kLogs) {
    std::ifstream file(folder_ + log);
    for (std::string line; std::getline(file, line);) {
      const auto value = line.size() <= kMaxLine
                             ? json::parse(line)
                             : Result<json::Value>(Error{ErrorCode::kTooLarge, "line"});
      if (value && value->text("decision") == "deny") {
        ++counts[{value->text("host") + ":" + std::to_string(value->integer("port")),
                  value->text("reason")}];
      }
    }
  }
  std::vector<RefusedTarget> out;
  for (const auto& [what, count] : counts) {
    out.push_back({what.first, what.second, count});
  }
  std::ranges::stable_sort(out, std::greater<>(), &RefusedTarget::count);
  return out;
}

}  // namespace sandboxkit::box
