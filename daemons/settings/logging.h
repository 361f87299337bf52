#pragma once

#include "sandboxkit/events.h"

#include "config/table.h"

namespace sandboxkit::daemons {

/// `log.level` and `log.format`, which every daemon has alike.
void add_logging(config::Table& table, Severity& level, bool& as_json);

}  // namespace sandboxkit::daemons
