#pragma once

#include "io/http_server.h"

namespace sandboxkit::control {

/// Gives every request its ids: each answer carries `X-Request-Id`, and what the request brings
/// about finds one valid id and one valid `traceparent` in its head.
/// Thread-safety: the loop's thread.
class Watch final : public io::HttpObserver {
 public:
  wire::Headers on_request(wire::RequestHead& head) override;
  void on_answer(const wire::RequestHead& head, int status,
                 std::chrono::microseconds taken) override;
};

}  // namespace sandboxkit::control
