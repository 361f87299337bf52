#include "egress/sidecar.h"

#include "egress/config.h"
#include "egress/control.h"
#include "egress/local_addresses.h"
#include "egress/policy_wait.h"
#include "egress/proxy.h"
#include "io/fd.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

int fail(int code, const Error& error) {
  const char* space = error.field.empty() ? "" : " ";
  std::fprintf(stderr, "sandboxkit-egress: %s%s%s\n", error.field.c_str(), space,
               error.message.c_str());
  return code;
}

/// As many descriptors as we may have: `policy.json` can allow more connections than the usual soft
/// limit holds.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// A descriptor that becomes readable when somebody asks us to stop.
io::Fd stop_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return io::Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

int run_sidecar(const std::string& config_dir, bool awaits_policy) {
  const io::Fd signals = stop_signals();
  if (!signals) {
    return fail(kExitFailure, {ErrorCode::kInternal, "no signal descriptor"});
  }
  if (awaits_policy) {
    const auto came = wait_for_file(config_dir, "policy.json", signals.get());
    if (!came || !*came) {
      return came ? kExitStopped : fail(kExitConfig, came.error());
    }
  }
  const auto config = load_config(config_dir + "/policy.json");
  if (!config) {
    return fail(kExitConfig, config.error());
  }
  raise_descriptor_limit();
  io::EventLoop loop;
  LocalAddresses local(config->refused_networks);
  auto proxy = Proxy::start(
      *config, {.loop = loop,
                .log_fd = STDOUT_FILENO,
                .clock = system_clock(),
                .is_local = [&local](const IpAddress& address) { return local.contains(address); },
                .limits = config->limits});
  if (!proxy) {
    return fail(kExitFailure, proxy.error());
  }
  // Only now: who can ask us gets answers of a proxy that listens.
  const Control control(loop, **proxy, config->policy_hash, config_dir + "/egress.sock");
  loop.add(signals.get(), EPOLLIN, [&loop](std::uint32_t) { loop.stop(); });
  loop.run();
  loop.remove(signals.get());
  return kExitStopped;
}

int run_holder() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  int received = 0;
  return ::sigwait(&signals, &received) == 0 ? kExitStopped : kExitFailure;
}

}  // namespace sandboxkit::egress
