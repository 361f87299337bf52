#include "docker/seccomp.h"

#include "base/text.h"
#include "json/value.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace sandboxkit::docker {
namespace {

// What programs need and what asks for no capability that a sandbox could have. Left out, beside
// what is newer than this list: mounts and namespaces, kernel modules, clocks, keys, bpf, perf,
// io_uring, memory policies, handles of files, other processes' descriptors. A name that a machine
// does not know is passed over.
constexpr std::string_view kFileCalls =
    "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat "
    "faccessat2 fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown "
    "fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs "
    "fsync ftruncate futimesat getcwd getdents getdents64 getxattr getxattrat inotify_add_watch "
    "inotify_init inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr "
    "listxattrat llistxattr lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod mknodat "
    "newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read "
    "readahead readlink readlinkat readv removexattr removexattrat rename renameat renameat2 "
    "rmdir sendfile setxattr setxattrat splice stat statfs statx symlink symlinkat sync "
    "sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes vmsplice "
    "write writev";
constexpr std::string_view kMemoryCalls =
    "brk cachestat madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock "
    "mlock2 mlockall mmap modify_ldt mprotect mremap mseal msync munlock munlockall munmap "
    "pkey_alloc pkey_free pkey_mprotect process_madvise process_mrelease process_vm_readv "
    "process_vm_writev remap_file_pages";
constexpr std::string_view kProcessCalls =
    "arch_prctl capget capset execve execveat exit exit_group fork get_robust_list "
    "get_thread_area getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid "
    "getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get "
    "ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self pidfd_open "
    "pidfd_send_signal prctl prlimit64 ptrace restart_syscall rseq rt_sigaction rt_sigpending "
    "rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo "
    "sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam "
    "sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam "
    "sched_setscheduler sched_yield seccomp set_robust_list set_thread_area set_tid_address "
    "setfsgid setfsuid setgid setgroups setpgid setpriority setregid setresgid setresuid setreuid "
    "setrlimit setsid setuid sigaltstack sysinfo tgkill times tkill uname vfork wait4 waitid";
constexpr std::string_view kWaitingCalls =
    "adjtimex alarm clock_getres clock_gettime clock_nanosleep epoll_create epoll_create1 "
    "epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 "
    "futex futex_requeue futex_wait futex_waitv futex_wake getitimer getrandom gettimeofday "
    "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit nanosleep pause poll "
    "ppoll pselect6 select setitimer signalfd signalfd4 time timer_create timer_delete "
    "timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime";
constexpr std::string_view kExchangeCalls =
    "accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr "
    "mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd pipe "
    "pipe2 recvfrom recvmmsg recvmsg semctl semget semop semtimedop sendmmsg sendmsg sendto "
    "setsockopt shmat shmctl shmdt shmget shutdown";

// The families that a wall knows of. Each further one (AF_VSOCK, AF_ALG, AF_PACKET, AF_XDP, ...) is
// a way of its own out of the sandbox or into the kernel.
constexpr std::int64_t kUnix = 1;
constexpr std::int64_t kInet = 2;
constexpr std::int64_t kInet6 = 10;
constexpr std::int64_t kNetlink = 16;
constexpr std::array kSocketFamilies{kUnix, kInet, kInet6, kNetlink};

// What `personality` may be set to: the present one, Linux, 32-bit addresses' layout of it, and
// asking.
constexpr std::array<std::int64_t, 5> kPersonalities{0x0, 0x8, 0x20000, 0x20008, 0xffffffff};
/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET: in none of them may a process
/// be born.
constexpr std::int64_t kCloneNamespaces = 0x7e020000;
constexpr std::int64_t kNoSuchCall = 38;  // ENOSYS

void allow(json::Array& rules, std::string_view names) {
  json::Array list;
  for (const std::string_view name : split(names, ' ')) {
    list.emplace_back(std::string(name));
  }
  rules.emplace_back(json::Object{{"names", std::move(list)}, {"action", "SCMP_ACT_ALLOW"}});
}

/// Only this very value of the first argument: the whole register is compared, so no high bits slip
/// by.
void allow_first_argument(json::Array& rules, const char* name, std::int64_t value) {
  rules.emplace_back(json::Object{
      {"names", json::Array{name}},
      {"action", "SCMP_ACT_ALLOW"},
      {"args", json::Array{json::Object{{"index", 0}, {"value", value}, {"op", "SCMP_CMP_EQ"}}}}});
}

json::Value architecture(const char* name) {
  // Without their 32-bit kin, whose one `socketcall` hides its arguments from a filter.
  return json::Object{{"architecture", name}, {"subArchitectures", json::Array{}}};
}

std::string make_option() {
  json::Array rules;
  allow(rules, kFileCalls);
  allow(rules, kMemoryCalls);
  allow(rules, kProcessCalls);
  allow(rules, kWaitingCalls);
  allow(rules, kExchangeCalls);
  for (const std::int64_t family : kSocketFamilies) {
    allow_first_argument(rules, "socket", family);
    allow_first_argument(rules, "socketpair", family);
  }
  for (const std::int64_t personality : kPersonalities) {
    allow_first_argument(rules, "personality", personality);
  }
  rules.emplace_back(
      json::Object{{"names", json::Array{"clone"}},
                   {"action", "SCMP_ACT_ALLOW"},
                   {"args", json::Array{json::Object{{"index", 0},
                                                     {"value", kCloneNamespaces},
                                                     {"valueTwo", 0},
                                                     {"op", "SCMP_CMP_MASKED_EQ"}}}}});
  // Its flags lie in memory, where no filter can read them. This answer makes libraries use
  // `clone`.
  rules.emplace_back(json::Object{
      {"names", json::Array{"clone3"}}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", kNoSuchCall}});
  const json::Value profile = json::Object{
      {"defaultAction", "SCMP_ACT_ERRNO"},
      {"archMap", json::Array{architecture("SCMP_ARCH_X86_64"), architecture("SCMP_ARCH_AARCH64")}},
      {"syscalls", std::move(rules)}};
  return "seccomp=" + json::dump(profile);
}

}  // namespace

const std::string& seccomp_option() {
  static const std::string kOption = make_option();
  return kOption;
}

}  // namespace sandboxkit::docker
