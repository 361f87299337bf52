#pragma once

#include "control/metrics.h"
#include "io/http_server.h"

#include <chrono>
#include <memory>
#include <utility>

namespace sandboxkit::control {

/// Gives every request its ids: each answer carries `X-Request-Id`, and what the request brings
/// about finds one valid id and one valid `traceparent` in its head. Counts the answers.
/// Thread-safety: the loop's thread.
class Watch final : public io::HttpObserver {
 public:
  explicit Watch(std::shared_ptr<Metrics> metrics) : metrics_(std::move(metrics)) {}
  wire::Headers on_request(wire::RequestHead& head) override;
  void on_answer(const wire::RequestHead& head, int status,
                 std::chrono::microseconds taken) override;

 private:
  const std::shared_ptr<Metrics> metrics_;  // Shared with connections that outlive the controller.
};

}  // namespace sandboxkit::control
