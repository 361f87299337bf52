#include "egress/host_process.h"

#include "base/text.h"
#include "egress/config.h"
#include "egress/control.h"
#include "egress/local_addresses.h"
#include "egress/privileges.h"
#include "egress/proxy.h"
#include "egress/sidecar.h"
#include "io/guest_link.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

constexpr std::uint64_t kMaxDescriptor = 1 << 20;

int fail(int code, const Error& error) {
  const char* space = error.field.empty() ? "" : " ";
  std::fprintf(stderr, "sandboxkit-egress: %s%s%s\n", error.field.c_str(), space,
               error.message.c_str());
  return code;
}

/// Takes a descriptor that this process was born with. Errors: kInvalidArgument.
Result<io::Fd> inherit(int fd, int option, const char* name) {
  int set = 0;
  socklen_t size = sizeof set;
  if (fd <= STDERR_FILENO || ::getsockopt(fd, SOL_SOCKET, option, &set, &size) != 0 || set == 0 ||
      ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return Error{ErrorCode::kInvalidArgument, "is no descriptor of its kind", "", name};
  }
  io::Fd taken(fd);
  const Status set_up = io::set_nonblocking(fd, true);
  return set_up ? Result<io::Fd>(std::move(taken)) : Result<io::Fd>(set_up.error());
}

/// An empty descriptor when it cannot be opened: then there is no log, and the wall stands.
io::Fd open_log(const std::string& path) {
  constexpr mode_t kMode = 0600;
  return io::Fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, kMode));
}

}  // namespace

std::optional<HostProcess> read_host_process(const std::vector<std::string>& words) {
  constexpr std::size_t kWords = 6;
  const bool same_user = words.size() == kWords + 1 && words[kWords] == "--same-user";
  if ((words.size() != kWords && !same_user) || words[0] != "--listener-fd" ||
      words[2] != "--control-fd" || words[4] != "--config-dir") {
    return std::nullopt;
  }
  const auto listener = parse_decimal(words[1], kMaxDescriptor);
  const auto control = parse_decimal(words[3], kMaxDescriptor);
  if (!listener || !control) {
    return std::nullopt;
  }
  return HostProcess{words[5], static_cast<int>(*listener), static_cast<int>(*control), same_user};
}

int run_host_process(const HostProcess& process) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  auto listener = inherit(process.listener_fd, SO_ACCEPTCONN, "--listener-fd");
  auto control = inherit(process.control_fd, SO_DOMAIN, "--control-fd");
  if (!listener || !control) {
    return fail(kExitConfig, listener ? control.error() : listener.error());
  }
  const auto config = load_config(process.config_dir + "/policy.json");
  if (!config) {
    return fail(kExitConfig, config.error());
  }
  const std::array<io::Fd, 2> logs{open_log(process.config_dir + "/decisions.0.log"),
                                   open_log(process.config_dir + "/decisions.1.log")};
  io::EventLoop loop;
  LocalAddresses local(config->refused_networks);
  // Reads the host's resolver settings, so it comes before the host's files are out of sight.
  auto proxy = Proxy::start(
      *config, {.loop = loop,
                .log_fd = logs[0].get(),
                .clock = system_clock(),
                .is_local = [&](const IpAddress& address) { return local.contains(address); },
                .limits = config->limits,
                .listener = *std::move(listener),
                .spare_log_fd = logs[1].get()});
  if (!proxy) {
    return fail(kExitFailure, proxy.error());
  }
  // Nothing was accepted so far: that is the loop's work.
  const Status dropped =
      process.same_user ? give_up_files() : give_up_privileges(process.config_dir);
  if (!dropped) {
    return fail(kExitFailure, dropped.error());
  }
  const auto dialer = io::GuestDialer::adopt(
      loop, *std::move(control),
      [&](io::Fd connection) {
        serve_control(loop, std::move(connection), **proxy, config->policy_hash);
      },
      [&loop] { loop.stop(); });
  loop.run();
  dialer->stop();
  return kExitStopped;
}

}  // namespace sandboxkit::egress
