#include "docker/helper_link.h"

#include "io/guest_link.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

namespace sandboxkit::docker {
namespace {

/// What the loop's callbacks share with the callers; it outlives the link.
struct LinkState {
  std::atomic<pid_t> pid{0};
  std::mutex mutex{};
  std::condition_variable_any changed{};
  bool up = false;
  std::function<void()> on_up{};
};

class HubLink final : public HelperLink {
 public:
  HubLink(LinkHub& hub, std::shared_ptr<io::GuestLink> link, std::shared_ptr<LinkState> state)
      : hub_(hub), link_(std::move(link)), state_(std::move(state)) {}

  ~HubLink() override {
    hub_.run([&] { link_.reset(); });
  }

  void expect_pid(pid_t pid) override { state_->pid.store(pid); }
  bool ready() const override { return link_->ready(); }

  bool wait_ready(std::chrono::milliseconds limit, std::stop_token stop) override {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::move(stop), limit, [&] { return state_->up; });
  }

  Result<io::Fd> connect() override { return link_->connect(); }

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
    hub_.run([&] { link_->close(); });
  }

 private:
  LinkHub& hub_;
  // Shared with the loop's callbacks.
  std::shared_ptr<io::GuestLink> link_;
  std::shared_ptr<LinkState> state_;
};

}  // namespace

LinkHub::LinkHub() : thread_([this] { loop_.run(); }) {}

LinkHub::~LinkHub() {
  loop_.stop();
  thread_.join();
}

void LinkHub::run(const std::function<void()>& work) {
  if (loop_.on_loop_thread()) {
    work();
    return;
  }
  std::promise<void> done;
  loop_.post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

Result<std::shared_ptr<HelperLink>> LinkHub::open(const std::string& socket_path,
                                                  std::function<bool(io::Fd)> take_listener) {
  auto state = std::make_shared<LinkState>();
  std::optional<Result<std::shared_ptr<io::GuestLink>>> made;
  run([&] {
    made = io::GuestLink::listen(
        loop_, socket_path, [state] { return state->pid.load(); }, std::move(take_listener));
    if (*made) {
      (**made)->on_change([state](bool up) {
        std::function<void()> tell;
        {
          const std::lock_guard lock(state->mutex);
          state->up = up;
          tell = up ? state->on_up : nullptr;
        }
        state->changed.notify_all();
        if (tell) {
          tell();
        }
      });
    }
  });
  if (!*made) {
    return made->error();
  }
  return std::shared_ptr<HelperLink>(std::make_shared<HubLink>(*this, **made, std::move(state)));
}

}  // namespace sandboxkit::docker
