#include "sandboxkit/box.h"

namespace sandboxkit {

const char* name_of(BoxStrength strength) {
  switch (strength) {
    case BoxStrength::kNone:
      return "none";
    case BoxStrength::kPartial:
      return "partial";
    case BoxStrength::kFull:
      return "full";
  }
  return "none";
}

BoxStrength BoxKernel::strength() const {
  if (!user_namespaces || !openat2 || !mount_descriptors || !own_proc || !seccomp) {
    return BoxStrength::kNone;
  }
  return landlock_abi > 0 ? BoxStrength::kFull : BoxStrength::kPartial;
}

}  // namespace sandboxkit
