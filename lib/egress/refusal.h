#pragma once

#include <string>

namespace sandboxkit::egress {

/// An answer that ends a request without an upstream's word.
struct Refusal {
  int status;
  std::string reason;   ///< Stable name, in the header `X-Sandboxkit-Egress`.
  std::string message;  ///< For whoever reads the body; one or two sentences.
};

}  // namespace sandboxkit::egress
