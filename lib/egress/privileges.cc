#include "egress/privileges.h"

#include "egress/line_log.h"
#include "io/fd.h"

#include <array>
#include <cerrno>

#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
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

Status drop_ambient() {
  return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0
             ? Status()
             : Status(failed("prctl(PR_CAP_AMBIENT)"));
}

Status drop_capabilities() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      return failed("prctl(PR_CAPBSET_DROP)");
    }
  }
  return drop_ambient();
}

/// The change of the user took them already; this also holds where a setting of the kernel kept
/// them.
Status clear_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0 ? Status() : Status(failed("capset"));
}

/// Neither looked into nor given back what it gave up, and no process or thread beside it.
Status close_ways_back() {
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
  return {};
}

/// No rule allows anything: what is open stays, and nothing else opens.
Status close_files() {
  landlock_ruleset_attr all{};
  all.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // Version 1 has these.
  const io::Fd ruleset(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &all, sizeof all.handled_access_fs, 0)));
  if (!ruleset) {
    return errno == ENOSYS || errno == EOPNOTSUPP ? Status() : Status(failed("landlock"));
  }
  return ::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) == 0 ? Status()
                                                                      : Status(failed("landlock"));
}

}  // namespace

Status give_up_files() {
  if (::geteuid() == 0) {
    return Error{ErrorCode::kPermissionDenied, "root has more to give up than its files"};
  }
  for (Status (*step)() : {drop_ambient, clear_capabilities, close_ways_back, close_files}) {
    if (const Status done = step(); !done) {
      return done;
    }
  }
  return {};
}

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
  if (const Status closed = close_ways_back(); !closed) {
    return closed;
  }
  return ::getuid() == kProxyUser && ::setuid(0) != 0 ? Status() : Status(failed("setuid"));
}

}  // namespace sandboxkit::egress
