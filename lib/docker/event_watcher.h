#pragma once

#include "docker/engine_client.h"
#include "docker/labels.h"
#include "docker/observed.h"

#include <functional>
#include <stop_token>
#include <thread>

namespace sandboxkit::docker {

/// Follows the engine's events of the owner's containers and of networks on a thread of its own,
/// and follows them again when the engine was away.
class EventWatcher {
 public:
  struct Handlers {
    std::function<void(const SeenEvent&)> on_event;
    /// A container, whoever's, came onto a network.
    std::function<void(const std::string&)> on_network;
    /// The stream stands (again): what happened before has to be looked up.
    std::function<void()> on_connected;
  };

  EventWatcher(EngineClient& engine, const Owner& owner, Handlers handlers);
  /// Ends the thread; no handler is called afterwards.
  ~EventWatcher() = default;

 private:
  void follow(const std::stop_token& stop);
  bool take(std::string_view bytes);

  EngineClient& engine_;
  const Owner owner_;
  const Handlers handlers_;
  std::string partial_;
  std::jthread thread_;
};

}  // namespace sandboxkit::docker
