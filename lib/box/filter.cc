#include "box/filter.h"

#include "io/fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string>

#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::box {
namespace {

/// The kernel looks at 32 bits of these; a filter that compares 64 is passed by a bit above them
/// (CVE-2019-10063).
constexpr scmp_datum_t kLow = 0xffffffffU;
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/// By name, so that one that this library does not know is passed over and not miscompiled.
constexpr std::array kOwnersCalls{"io_uring_setup",
                                  "io_uring_enter",
                                  "io_uring_register",
                                  "add_key",
                                  "request_key",
                                  "keyctl",
                                  "bpf",
                                  "perf_event_open",
                                  "userfaultfd",
                                  "kexec_load",
                                  "kexec_file_load",
                                  "init_module",
                                  "finit_module",
                                  "delete_module",
                                  "open_by_handle_at",
                                  "reboot",
                                  "swapon",
                                  "swapoff",
                                  "acct",
                                  "syslog",
                                  "quotactl",
                                  "quotactl_fd",
                                  "settimeofday",
                                  "clock_settime",
                                  "clock_adjtime",
                                  "adjtimex",
                                  "iopl",
                                  "ioperm",
                                  "vhangup",
                                  "nfsservctl",
                                  "lookup_dcookie",
                                  "uselib",
                                  "fanotify_init",
                                  "process_vm_writev"};
constexpr std::array kNamespaceCalls{
    "unshare",    "setns",     "mount",  "umount2",  "umount",  "pivot_root", "chroot",
    "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",     "mount_setattr"};
constexpr std::array kNamespaceFlags{CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME};

struct Release {
  void operator()(void* context) const { seccomp_release(context); }
};
using Context = std::unique_ptr<void, Release>;

Error failed(const char* what, int error_number) {
  Error error = io::error_from_errno(what, error_number);
  error.code = ErrorCode::kUnavailable;
  error.reason = "box_unavailable";
  return error;
}

class Rules {
 public:
  explicit Rules(scmp_filter_ctx context) : context_(context) {}

  void deny(const char* name) { deny(name, EPERM); }
  void deny(const char* name, int error_number) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number != __NR_SCMP_ERROR) {
      add(error_number, number, {});
    }
  }

  /// All but these, which are rising. What lies above the last one is one rule, high bits too: the
  /// kernel would not look at those.
  void deny_families(int call, std::span<const int> allowed) {
    int next = 0;
    for (const int family : allowed) {
      for (; next < family; ++next) {
        add(EAFNOSUPPORT, call, {SCMP_A0(SCMP_CMP_EQ, scmp_datum_t(next), 0)});
      }
      next = family + 1;
    }
    add(EAFNOSUPPORT, call, {SCMP_A0(SCMP_CMP_GE, scmp_datum_t(next), 0)});
  }

  void deny_ioctl(unsigned long request) {
    add(EPERM, SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_MASKED_EQ, kLow, scmp_datum_t(request))});
  }

  void deny_clone(scmp_datum_t flag) {
    add(EPERM, SCMP_SYS(clone), {SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)});
  }

  int problem() const { return problem_; }

 private:
  void add(int error_number, int call, const std::vector<scmp_arg_cmp>& compare) {
    const int code =
        seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(static_cast<unsigned>(error_number)), call,
                               static_cast<unsigned>(compare.size()), compare.data());
    problem_ = problem_ == 0 ? code : problem_;
  }

  scmp_filter_ctx context_;
  int problem_ = 0;
};

void add_rules(Rules& rules, const FilterInput& input) {
  std::ranges::for_each(kOwnersCalls, [&](const char* name) { rules.deny(name); });
  constexpr std::array kAll{AF_UNIX, AF_INET, AF_INET6};
  const std::span<const int> sockets(kAll);
  rules.deny_families(SCMP_SYS(socket), input.unix_sockets ? sockets : sockets.subspan(1));
  rules.deny_families(SCMP_SYS(socketpair), sockets.first(1));
  rules.deny_ioctl(TIOCSTI);
  rules.deny_ioctl(TIOCLINUX);
  if (input.allow_nested) {
    return;
  }
  std::ranges::for_each(kNamespaceCalls, [&](const char* name) { rules.deny(name); });
  for (const int flag : kNamespaceFlags) {
    rules.deny_clone(static_cast<scmp_datum_t>(flag));
  }
  // Its flags lie in memory, where no filter looks; libraries fall back to clone.
  rules.deny("clone3", ENOSYS);
}

/// The library writes programs to descriptors alone.
Result<std::vector<sock_filter>> read_program(scmp_filter_ctx context) {
  const io::Fd file(memfd_create("filter", MFD_CLOEXEC));
  if (!file) {
    return failed("memfd_create", errno);
  }
  if (const int code = seccomp_export_bpf(context, file.get()); code != 0) {
    return failed("seccomp_export_bpf", -code);
  }
  const off_t size = lseek(file.get(), 0, SEEK_END);
  if (size <= 0 || size % static_cast<off_t>(sizeof(sock_filter)) != 0) {
    return failed("seccomp_export_bpf", EINVAL);
  }
  std::vector<sock_filter> program(static_cast<std::size_t>(size) / sizeof(sock_filter));
  if (pread(file.get(), program.data(), static_cast<std::size_t>(size), 0) != size) {
    return failed("read the filter", EIO);
  }
  return program;
}

}  // namespace

Result<std::vector<sock_filter>> make_filter(const FilterInput& input) {
  const Context context(seccomp_init(SCMP_ACT_ALLOW));
  if (!context) {
    return failed("seccomp_init", ENOMEM);
  }
  if (const int code =
          seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
      code != 0) {
    return failed("seccomp_attr_set", -code);
  }
  // A tree in place of a list: every call of the command passes here.
  if (const int code = seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2); code != 0) {
    return failed("seccomp_attr_set", -code);
  }
  Rules rules(context.get());
  add_rules(rules, input);
  if (rules.problem() != 0) {
    return failed("seccomp_rule_add", -rules.problem());
  }
  return read_program(context.get());
}

}  // namespace sandboxkit::box
