#include "daemons/settings/logging.h"

namespace sandboxkit::daemons {

void add_logging(config::Table& table, Severity& level, bool& as_json) {
  table.choice({.key = "log.level", .help = "the least severe that is logged"}, level,
               {{"debug", Severity::kDebug},
                {"info", Severity::kInfo},
                {"warning", Severity::kWarning},
                {"error", Severity::kError}});
  table.choice({.key = "log.format", .help = "one line an event, to standard error"}, as_json,
               {{"text", false}, {"json", true}});
}

}  // namespace sandboxkit::daemons
