#include "guest/exit_status.h"

#include "base/text.h"

#include <cstring>

namespace sandboxkit::guest {

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

std::string exit_text(const ExitStatus& status) {
  if (status.signal == 0) {
    return "exit status " + std::to_string(status.code);
  }
  // As Go's runtime names them: lower case, no number.
  const char* known = ::sigdescr_np(status.signal);
  const std::string name =
      known == nullptr ? "signal " + std::to_string(status.signal) : ascii_lower(known);
  return "signal: " + name + (status.core ? " (core dumped)" : "");
}

}  // namespace sandboxkit::guest
