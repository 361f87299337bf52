#pragma once

#include "egress/engine.h"
#include "io/fd.h"

#include <functional>
#include <memory>
#include <variant>

namespace sandboxkit::egress {

/// A connection to an address that was judged.
struct Dialled {
  io::Fd fd;
  IpAddress address;
  EgressVerdict verdict;
};

/// Takes a target whose name the policy allowed to a connection: its addresses (stated by the
/// operator, or resolved once), each judged, the good ones tried one after the other. What was
/// judged is what is dialled: no name is looked up again.
class Dial {
 public:
  using Outcome = std::variant<Dialled, Refusal>;

  /// `verdict` is the policy's for the name. Calls back once, from the loop.
  static std::shared_ptr<Dial> start(Engine& engine, EgressTarget target, EgressVerdict verdict,
                                     std::function<void(Outcome)> on_done);
  virtual ~Dial() = default;
  /// No callback comes any more.
  virtual void cancel() = 0;
};

}  // namespace sandboxkit::egress
