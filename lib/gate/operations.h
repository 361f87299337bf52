#pragma once

#include "sandboxkit/gate_request.h"

#include <cstdint>
#include <set>

namespace sandboxkit::gate {

std::set<GateOperation> every_operation();
std::set<GateOperation> changing_operations();

/// Whether the operation's target is a path.
bool takes_path(GateOperation operation);
bool only_reads(GateOperation operation);
/// Whether it acts on the name itself, so that a link there is no way to elsewhere.
bool keeps_last_link(GateOperation operation);

/// A set of operations that is asked quickly.
class OperationMask {
 public:
  OperationMask() = default;
  explicit OperationMask(const std::set<GateOperation>& operations) {
    for (const GateOperation operation : operations) {
      bits_ |= bit(operation);
    }
  }
  bool has(GateOperation operation) const { return (bits_ & bit(operation)) != 0; }

 private:
  static std::uint32_t bit(GateOperation operation) {
    return std::uint32_t{1} << static_cast<unsigned>(operation);
  }
  std::uint32_t bits_ = 0;
};

}  // namespace sandboxkit::gate
