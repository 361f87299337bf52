#include "docker/holder_pool.h"

#include "docker/plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1'000};
constexpr milliseconds kLongestPause{60'000};
/// A refill lets creates go first for this long.
constexpr milliseconds kYield{2'000};
constexpr std::int64_t kHolderMemoryBytes = 32LL << 20;
constexpr std::int64_t kHolderPids = 8;

}  // namespace

json::Value holder_body(const Owner& owner, const std::string& image) {
  json::Object host{
      {"NetworkMode", "none"},
      {"CapDrop", json::Array{"ALL"}},
      {"SecurityOpt", json::Array{"no-new-privileges"}},
      {"ReadonlyRootfs", true},
      {"Memory", kHolderMemoryBytes},
      {"MemorySwap", kHolderMemoryBytes},
      {"PidsLimit", kHolderPids},
      {"IpcMode", "private"},
      {"Init", false},
      {"LogConfig", json::Object{{"Type", "none"}}},
  };
  // The files of names and the hostname are the holder's also in the sandbox.
  add_dead_resolver(host);
  return json::Object{
      {"Image", image},
      {"Hostname", kIsolatedHostname},
      {"User", "65534:65534"},
      {"Entrypoint", json::Array{kEgressInImage, "--hold"}},
      {"Cmd", json::Array{}},
      {"Labels", labels_for_shared(owner, Role::kHolder)},
      {"HostConfig", std::move(host)},
  };
}

HolderPool::HolderPool(EngineClient& engine, Owner owner, std::size_t size)
    : engine_(engine), owner_(std::move(owner)), size_(std::min(size, kMaxHolders)) {}

HolderPool::~HolderPool() {
  if (!thread_.joinable()) {
    return;
  }
  thread_.request_stop();
  thread_.join();
  discard_all();
  for (const std::string& holder : discarded_) {
    remove(holder);
  }
}

void HolderPool::fill(const std::string& image) {
  const std::lock_guard lock(mutex_);
  if (size_ == 0 || thread_.joinable()) {
    return;
  }
  image_ = image;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::optional<std::string> HolderPool::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    return std::nullopt;
  }
  std::string holder = std::move(waiting_.front());
  waiting_.pop_front();
  return holder;
}

void HolderPool::discard(std::string holder) {
  {
    const std::lock_guard lock(mutex_);
    discarded_.push_back(std::move(holder));
  }
  changed_.notify_all();
}

void HolderPool::discard_all() {
  {
    const std::lock_guard lock(mutex_);
    discarded_.insert(discarded_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  changed_.notify_all();
}

HolderPool::Create::~Create() {
  --pool_.creates_;
  pool_.changed_.notify_all();
}

/// True when there is a place to fill; false when only removals are due or the end is asked for.
bool HolderPool::wait(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  changed_.wait(lock, stop, [&] { return !discarded_.empty() || waiting_.size() < size_; });
  if (stop.stop_requested() || !discarded_.empty()) {
    return false;
  }
  changed_.wait_for(lock, stop, kYield, [&] { return creates_ == 0 || !discarded_.empty(); });
  return !stop.stop_requested() && discarded_.empty();
}

void HolderPool::run(const std::stop_token& stop) {
  remove_all_found();
  milliseconds pause = kFirstPause;
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    const bool room = wait(lock, stop);
    const std::vector<std::string> gone = std::exchange(discarded_, {});
    lock.unlock();
    for (const std::string& holder : gone) {
      remove(holder);
    }
    if (!room) {
      continue;
    }
    auto made = make();
    lock.lock();
    if (made) {
      waiting_.push_back(std::move(*made));
      pause = kFirstPause;
      continue;
    }
    changed_.wait_for(lock, stop, pause, [] { return false; });
    pause = std::min(pause * 2, kLongestPause);
  }
}

void HolderPool::clear_left_over() {
  {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) {
      return;
    }
  }
  remove_all_found();
}

void HolderPool::remove_all_found() {
  const auto found = engine_.get("/containers/json?all=1&" + filters_for(owner_));
  const json::Array* list = found ? found->as_array() : nullptr;
  if (list == nullptr) {
    return;
  }
  for (const json::Value& entry : *list) {
    if (has_role(entry.find("Labels"), owner_, Role::kHolder)) {
      remove(entry.text("Id"));
    }
  }
}

Result<std::string> HolderPool::make() {
  const auto created = engine_.call(EngineCall{.method = "POST",
                                               .target = "/containers/create",
                                               .body = json::dump(holder_body(owner_, image_))});
  if (!created) {
    return created.error();
  }
  std::string holder = created->text("Id");
  const auto started =
      engine_.call(EngineCall{.method = "POST", .target = "/containers/" + holder + "/start"});
  if (!started) {
    remove(holder);
    return started.error();
  }
  return holder;
}

/// What fails is found by its label at the next start of a worker.
void HolderPool::remove(const std::string& holder) {
  static_cast<void>(engine_.call(
      EngineCall{.method = "DELETE", .target = "/containers/" + holder + "?force=1&v=1"}));
}

}  // namespace sandboxkit::docker
