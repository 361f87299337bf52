#pragma once

#include <string>

namespace sandboxkit::guest {

struct ExitStatus {
  int code = 0;    ///< Meaningless when `signal` is set.
  int signal = 0;  ///< What killed it; 0: it exited.
  bool core = false;
};

/// `SIGKILL`; `signal 42` for one without a name.
std::string signal_name(int number);
/// `exit status 3`, `signal: killed`: the words of E2B's envd, which its clients compare.
std::string exit_text(const ExitStatus& status);

}  // namespace sandboxkit::guest
