#pragma once

#include "store/store.h"
#include "tests/model/scene.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit::model {

/// Thrown through the controller's code: its process ends here. Whatever it had in memory is gone,
/// and what it committed stands.
struct ControllerCrash {};

/// The real store, before or after each of whose commits the controller may crash. Notes which
/// workers' rows changed.
class ModelStore final : public store::Store {
 public:
  ModelStore(Scene& scene, store::Store& real) : scene_(scene), real_(real) {
    real_.on_change([this](const std::vector<std::string>& workers) {
      touched_.insert(workers.begin(), workers.end());
      if (handler_) {
        handler_(workers);
      }
    });
  }

  Status write(const std::function<Status(store::Tx&)>& body) override {
    crash_perhaps();
    if (meanwhile_ && !busy_ && scene_.mishap(kMeanwhile)) {
      busy_ = true;
      meanwhile_();
      busy_ = false;
    }
    const Status written = real_.write(body);
    crash_perhaps();
    return written;
  }
  Status read(const std::function<Status(store::Tx&)>& body) override { return real_.read(body); }
  void on_change(OnChange handler) override { handler_ = std::move(handler); }

  /// What another thread of the controller commits between what was read for a write and the
  /// write.
  void set_meanwhile(std::function<void()> meanwhile) { meanwhile_ = std::move(meanwhile); }
  /// How likely a crash is at each of the two points, of a million.
  void set_crashes(std::int64_t of_a_million) { crashes_ = of_a_million; }
  void touch(const std::string& worker) { touched_.insert(worker); }
  std::set<std::string> take_touched() { return std::exchange(touched_, {}); }
  store::Store& real() { return real_; }

 private:
  static constexpr std::int64_t kMeanwhile = 30;

  void crash_perhaps() {
    if (crashes_ > 0 && !scene_.quiet && scene_.dice.below(1'000'000) < crashes_) {
      throw ControllerCrash{};
    }
  }

  Scene& scene_;
  store::Store& real_;
  OnChange handler_;
  std::function<void()> meanwhile_;
  bool busy_ = false;
  std::int64_t crashes_ = 0;
  std::set<std::string> touched_;
};

}  // namespace sandboxkit::model
