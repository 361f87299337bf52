#pragma once

#include "guest/process_table.h"
#include "io/http_server.h"

#include <memory>
#include <string_view>

namespace sandboxkit::guest {

/// The calls of E2B's `process.Process`: Start and Connect (streams), List, SendInput, CloseStdin,
/// SendSignal, Update. A client that goes away does not end its process; a Start's deadline does.
/// Source: design of the E2B surface, 4.3.
void serve_process_rpc(io::EventLoop& loop, ProcessTable& table, std::string_view method,
                       const std::shared_ptr<io::HttpExchange>& exchange);

}  // namespace sandboxkit::guest
