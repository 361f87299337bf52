#include "egress/privileges.h"

#include "egress/line_log.h"
#include "io/fd.h"

#include <array>
#include <cerrno>

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

Error failed(const char* what) {
  Error error = io::error_from_errno(what, errno);
  error.code = ErrorCode::kPermissionDenied;
  return error;
}

Status limit(__rlimit_resource what, unsigned long most) {
  const rlimit bounds{most, most};
  return ::setrlimit(what, &bounds) == 0 ? Status() : Status(failed("setrlimit"));
}

Status drop_capabilities() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      return failed("prctl(PR_CAPBSET_DROP)");
    }
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return failed("prctl(PR_CAP_AMBIENT)");
  }
  return {};
}

/// The change of the user took them already; this also holds where a setting of the kernel kept
/// them.
Status clear_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0 ? Status() : Status(failed("capset"));
}

}  // namespace

Status give_up_privileges(const std::string& root) {
  if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0) {
    return failed("chroot");
  }
  if (const Status dropped = drop_capabilities(); !dropped) {
    return dropped;
  }
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kProxyUser, kProxyUser, kProxyUser) != 0 ||
      ::setresuid(kProxyUser, kProxyUser, kProxyUser) != 0) {
    return failed("setresuid");
  }
  if (const Status cleared = clear_capabilities(); !cleared) {
    return cleared;
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return failed("prctl");
  }
  for (const Status& limited :
       {limit(RLIMIT_NOFILE, kProxyDescriptors), limit(RLIMIT_CORE, 0), limit(RLIMIT_NPROC, 0),
        limit(RLIMIT_DATA, kProxyDataBytes), limit(RLIMIT_FSIZE, 2 * LineLog::kMaxFileBytes)}) {
    if (!limited) {
      return limited;
    }
  }
  return ::getuid() == kProxyUser && ::setuid(0) != 0 ? Status() : Status(failed("setuid"));
}

}  // namespace sandboxkit::egress
