#pragma once

#include "guest/process_table.h"
#include "io/http_server.h"

#include <memory>

namespace sandboxkit::guest {

/// POST /exec: runs a command and answers with all of its output, or streams it as events. The
/// command's session is killed when its time is up or its client is gone.
/// Source: architecture, section 5.
void serve_exec(io::EventLoop& loop, ProcessTable& table,
                std::shared_ptr<io::HttpExchange> exchange);

}  // namespace sandboxkit::guest
