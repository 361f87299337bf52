#pragma once

#include "sandboxkit/controller.h"

#include "control/metrics.h"
#include "control/pool.h"
#include "control/roster.h"
#include "io/event_loop.h"
#include "store/secrets_key.h"
#include "store/store.h"

#include <string>

namespace sandboxkit::control {

/// What every part of the controller works with. Lives as long as the controller.
struct Context {
  const ControllerConfig& config;
  Clock& clock;
  EventSink& events;
  store::Store& store;
  io::EventLoop& loop;
  Pool& pool;
  Roster& roster;
  std::string controller_id;
  Metrics& metrics;
  const store::SecretsKey* secrets_key = nullptr;  ///< Null: this controller keeps no secrets.
};

}  // namespace sandboxkit::control
