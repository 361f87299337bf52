#pragma once

#include "control/context.h"
#include "control/fleet.h"

namespace sandboxkit::control {

/// Cuts the tunnel of a worker whose last credential is past its end: who opened it once must not
/// keep it for ever. Thread-safety: the loop's thread.
class CredentialWatch {
 public:
  CredentialWatch(Context& context, Fleet& fleet) : context_(context), fleet_(fleet) {}
  void start();
  void stop() { stopped_ = true; }

 private:
  void tick();
  void pass();

  Context& context_;
  Fleet& fleet_;
  bool stopped_ = false;
};

}  // namespace sandboxkit::control
