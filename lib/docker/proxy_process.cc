#include "docker/proxy_process.h"

#include "base/text.h"
#include "docker/plan.h"
#include "io/child_process.h"
#include "io/guest_link.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{10'000};
/// Who lived so long starts again at once.
constexpr std::chrono::seconds kLongLife{30};
constexpr int kKillWaitMs = 2'000;
constexpr std::size_t kMaxWords = 400;

int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// What callers on any thread read.
struct ProxyState {
  std::mutex mutex{};
  std::condition_variable_any changed{};
  std::shared_ptr<io::GuestLink> link{};
  bool up = false;
  bool given_up = false;
  pid_t pid = 0;
  std::string problem{};
  std::function<void()> on_up{};
};

/// The last words of a child.
std::string words_of(int errors) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(errors, buffer.data(), buffer.size())) > 0;) {
    text.assign(buffer.data(), static_cast<std::size_t>(got));
  }
  text = text.substr(0, kMaxWords);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return std::string(trim(text));
}

std::string end_of(const siginfo_t& info) {
  return (info.si_code == CLD_EXITED ? "exit " : "signal ") + std::to_string(info.si_status);
}

/// Lives in the hub's loop.
class Keeper : public std::enable_shared_from_this<Keeper> {
 public:
  Keeper(io::EventLoop& loop, std::string program, std::string folder,
         std::shared_ptr<ProxyState> state)
      : loop_(loop),
        program_(std::move(program)),
        folder_(std::move(folder)),
        state_(std::move(state)) {}

  bool take(io::Fd listener) {
    if (const Status good = check_proxy_listener(listener.get(), kLoopback, kProxyPort); !good) {
      give_up(good.error().message);
      return false;
    }
    if (!listener_ && !closed_) {
      listener_ = std::move(listener);
      start();
    }
    return true;
  }

  void close() {
    closed_ = true;
    loop_.cancel(timer_);
    drop_link();
    if (child_.pidfd) {
      loop_.remove(child_.pidfd.get());
      syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
      pollfd ended{child_.pidfd.get(), POLLIN, 0};
      poll(&ended, 1, kKillWaitMs);
      reap();
    }
    listener_.reset();
  }

 private:
  void start() {
    if (closed_) {
      return;
    }
    if (++starts_ > ProxyProcess::kMaxStarts) {
      return give_up("it ended too often");
    }
    std::array<int, 2> ends{-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return again(io::error_from_errno("socketpair", errno).message);
    }
    io::Fd ours(ends[0]);
    const io::Fd theirs(ends[1]);
    std::vector<std::string> words{"--listener-fd", "3",    "--control-fd", "4",
                                   "--config-dir",  folder_};
    if (::geteuid() != 0) {
      words.emplace_back("--same-user");  // Who is not root has no other user to become.
    }
    auto child = io::spawn(
        {.program = program_, .arguments = words, .descriptors = {listener_.get(), theirs.get()}});
    if (!child) {
      return again(child.error().message);
    }
    child_ = std::move(*child);
    started_ = steady_clock::now();
    loop_.add(child_.pidfd.get(), EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
      if (const auto self = weak.lock()) {
        self->on_end();
      }
    });
    auto link = io::GuestLink::adopt(loop_, std::move(ours));
    link->on_change([state = state_](bool up) {
      std::function<void()> tell;
      {
        const std::lock_guard lock(state->mutex);
        state->up = up;
        state->problem = up ? "" : state->problem;
        tell = up ? state->on_up : nullptr;
      }
      state->changed.notify_all();
      if (tell) {
        tell();
      }
    });
    const std::lock_guard lock(state_->mutex);
    state_->link = std::move(link);
    state_->pid = child_.pid;
  }

  void on_end() {
    loop_.remove(child_.pidfd.get());
    drop_link();
    const std::string words = words_of(child_.errors.get());
    const std::string end = reap();
    if (steady_clock::now() - started_ > kLongLife) {
      pause_ = kFirstPause;
    }
    again(end + (words.empty() ? "" : ": " + words));
  }

  std::string reap() {
    siginfo_t info{};
    const bool ended =
        waitid(P_PIDFD, static_cast<id_t>(child_.pidfd.get()), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0;
    child_ = io::Child{};
    const std::lock_guard lock(state_->mutex);
    state_->pid = 0;
    return ended ? end_of(info) : "it ended";
  }

  void drop_link() {
    std::shared_ptr<io::GuestLink> link;
    {
      const std::lock_guard lock(state_->mutex);
      link = std::exchange(state_->link, nullptr);
      state_->up = false;
    }
    if (link) {
      link->close();
    }
    state_->changed.notify_all();
  }

  void say(std::string problem, bool for_ever) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->problem = std::move(problem);
      state_->given_up = state_->given_up || for_ever;
    }
    state_->changed.notify_all();
  }

  void again(std::string problem) {
    say(std::move(problem), false);
    timer_ = loop_.run_after(pause_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->start();
      }
    });
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

  void give_up(std::string problem) { say(std::move(problem), true); }

  io::EventLoop& loop_;
  const std::string program_;
  const std::string folder_;
  const std::shared_ptr<ProxyState> state_;  // Shared with callers on other threads.
  io::Fd listener_;
  io::Child child_;
  steady_clock::time_point started_{};
  milliseconds pause_ = kFirstPause;
  io::EventLoop::TimerId timer_ = 0;
  int starts_ = 0;
  bool closed_ = false;
};

class HubProxy final : public ProxyProcess {
 public:
  HubProxy(LinkHub& hub, std::shared_ptr<Keeper> keeper, std::shared_ptr<ProxyState> state)
      : hub_(hub), keeper_(std::move(keeper)), state_(std::move(state)) {}

  ~HubProxy() override {
    hub_.run([&] {
      keeper_->close();
      keeper_.reset();
    });
  }

  bool take_listener(io::Fd listener) override { return keeper_->take(std::move(listener)); }
  void expect_pid(pid_t /*pid*/) override {}

  bool ready() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->up;
  }
  std::string problem() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->problem;
  }
  bool given_up() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->given_up;
  }
  pid_t pid() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->pid;
  }

  bool wait_ready(milliseconds limit, std::stop_token stop) override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, std::move(stop), limit,
                             [&] { return state_->up || state_->given_up; });
    return state_->up;
  }

  Result<io::Fd> connect() override {
    std::unique_lock lock(state_->mutex);
    const auto link = state_->link;
    lock.unlock();
    if (!link) {
      return Error{ErrorCode::kUnavailable, "the egress proxy is down", "guest_unavailable"};
    }
    return link->connect();
  }

  void on_up(std::function<void()> handler) override {
    hub_.run([&] {
      std::unique_lock lock(state_->mutex);
      state_->on_up = handler;
      const bool up = state_->up;
      lock.unlock();
      if (up) {
        handler();
      }
    });
  }

  void close() override {
    hub_.run([&] { keeper_->close(); });
  }

 private:
  LinkHub& hub_;
  // Shared with the loop's callbacks.
  std::shared_ptr<Keeper> keeper_;
  std::shared_ptr<ProxyState> state_;
};

}  // namespace

Status check_proxy_listener(int fd, const std::string& address, std::uint16_t port) {
  const auto wrong = [](const char* what) {
    return Error{ErrorCode::kConflict, std::string("the guest passed ") + what};
  };
  if (option(fd, SO_DOMAIN) != AF_INET || option(fd, SO_TYPE) != SOCK_STREAM ||
      option(fd, SO_PROTOCOL) != IPPROTO_TCP) {
    return wrong("something that is no TCP socket");
  }
  if (option(fd, SO_ACCEPTCONN) != 1) {
    return wrong("a socket that does not listen");
  }
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  in_addr wanted{};
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0 || size != sizeof bound ||
      inet_pton(AF_INET, address.c_str(), &wanted) != 1 || bound.sin_addr.s_addr != wanted.s_addr ||
      bound.sin_port != htons(port)) {
    return wrong("a socket that listens elsewhere");
  }
  return {};
}

std::shared_ptr<ProxyProcess> ProxyProcess::make(LinkHub& hub, std::string program,
                                                 std::string folder) {
  auto state = std::make_shared<ProxyState>();
  auto keeper = std::make_shared<Keeper>(hub.loop(), std::move(program), std::move(folder), state);
  return std::make_shared<HubProxy>(hub, std::move(keeper), std::move(state));
}

}  // namespace sandboxkit::docker
