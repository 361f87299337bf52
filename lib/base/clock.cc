#include "sandboxkit/clock.h"

namespace sandboxkit {
namespace {

class SystemClock final : public Clock {
 public:
  WallTime now() const override {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now());
  }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace sandboxkit
