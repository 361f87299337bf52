#include "control/watch.h"

#include "base/random.h"
#include "wire/trace.h"

namespace sandboxkit::control {

wire::Headers Watch::on_request(wire::RequestHead& head) {
  wire::TraceSeed seed{};
  system_random().fill(seed);
  const wire::Trace trace = wire::admit_trace(head.headers, seed);
  wire::Headers fields;
  fields.add(wire::kRequestIdField, trace.request_id);
  return fields;
}

void Watch::on_answer(const wire::RequestHead& head, int status, std::chrono::microseconds taken) {
  metrics_->answered(head.method, head.target, status, taken);
}

}  // namespace sandboxkit::control
