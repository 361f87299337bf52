// Tries from inside of a box what a box must not let happen. Prints `NAME ERRNO` for each, 0 when
// it succeeded. Arguments: home, tree, outside, the host's pid, TCP port, socket path, abstract
// name, and the number of an inherited descriptor.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

void told(const char* name, bool worked) { std::printf("%s %d\n", name, worked ? 0 : errno); }

/// Keeps the errno of what was tried.
void shut(int fd) {
  const int error_number = errno;
  close(fd);
  errno = error_number;
}

bool reads(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  char byte = 0;
  const bool worked = fd >= 0 && read(fd, &byte, 1) >= 0;
  shut(fd);
  return worked;
}

bool writes(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND);
  const bool worked = fd >= 0 && write(fd, "x", 1) == 1;
  shut(fd);
  return worked;
}

bool makes(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  const bool worked = fd >= 0;
  shut(fd);
  return worked;
}

bool connects(int family, const void* address, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM, 0);
  const bool worked = fd >= 0 && connect(fd, static_cast<const sockaddr*>(address), size) == 0;
  shut(fd);
  return worked;
}

bool connects_unix(const std::string& name, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + (abstract ? 1 : 0), name.c_str(), name.size());
  return connects(
      AF_UNIX, &address,
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 1 : 0)));
}

bool has_family(int family, int type) {
  const int fd = socket(family, type, 0);
  shut(fd);
  return fd >= 0;
}

/// Signal by which a child of ours ends when it does this; 0 when it does not end by one.
int signal_of(const std::function<void()>& act) {
  const pid_t pid = fork();
  if (pid == 0) {
    act();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void files(const std::string& home, const std::string& tree, const std::string& outside) {
  told("read_key", reads(home + "/.ssh/id_rsa"));
  told("read_netrc", reads(home + "/.netrc"));
  told("read_other_home_file", reads(home + "/notes"));
  told("read_hidden_in_tree", reads(tree + "/.env"));
  told("read_key_by_link", reads(tree + "/link"));
  told("read_key_by_proc_root", reads("/proc/self/root" + home + "/.ssh/id_rsa"));
  told("read_key_by_first_process", reads("/proc/1/root" + home + "/.ssh/id_rsa"));
  told("read_first_environment", reads("/proc/1/environ"));
  told("read_tree", reads(tree + "/src/a.c"));
  told("read_usr", reads("/usr/bin/env"));
  told("write_tree", writes(tree + "/src/a.c"));
  told("make_in_tree", makes(tree + "/made"));
  told("make_in_home", makes(home + "/made"));
  told("make_in_tmp", makes("/tmp/made"));
  told("make_in_shm", makes("/dev/shm/made"));
  told("make_in_dev", makes("/dev/made"));
  told("make_in_root", makes("/made"));
  told("write_outside", writes(outside + "/file"));
  told("make_outside", makes(outside + "/made"));
  told("truncate_outside", truncate((outside + "/file").c_str(), 0) == 0);
  told("chmod_outside", chmod((outside + "/file").c_str(), 0777) == 0);
  told("utimes_outside", utimensat(AT_FDCWD, (outside + "/file").c_str(), nullptr, 0) == 0);
  told("xattr_outside", setxattr((outside + "/file").c_str(), "user.x", "1", 1, 0) == 0);
  told("write_granted", writes(outside + "/granted/file"));
  told("write_device_null", writes("/dev/null"));
}

void protections(const std::string& tree, const std::string& outside) {
  const std::string git = tree + "/.git";
  told("write_hook", writes(git + "/hooks/x"));
  told("make_hook", makes(git + "/hooks/new"));
  told("write_config", writes(git + "/config"));
  told("write_index", writes(git + "/index"));
  makes(git + "/config.lock");
  told("rename_onto_config",
       rename((git + "/config.lock").c_str(), (git + "/config").c_str()) == 0);
  told("unlink_config", unlink((git + "/config").c_str()) == 0);
  told("rename_config_away", rename((git + "/config").c_str(), (git + "/c2").c_str()) == 0);
  told("unlink_hidden", unlink((tree + "/.env").c_str()) == 0);
  const std::string absent = tree + "/.mcp.json";
  const int made = open(absent.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
  told("make_absent", made >= 0);
  told("write_absent", writes(absent));
  told("rename_to_absent", rename((tree + "/made").c_str(), absent.c_str()) == 0);
  told("symlink_absent", symlink("x", absent.c_str()) == 0);
  told("link_absent", link((tree + "/src/a.c").c_str(), absent.c_str()) == 0);
  told("mkdir_absent", mkdir(absent.c_str(), 0755) == 0);
  told("unlink_absent", unlink(absent.c_str()) == 0);
  told("rename_pinned", rename(git.c_str(), (tree + "/.g2").c_str()) == 0);
  told("exchange_pinned",
       syscall(SYS_renameat2, AT_FDCWD, git.c_str(), AT_FDCWD, (tree + "/src").c_str(), 2U) == 0);
  told("write_nested_hook", writes(tree + "/sub/.git/hooks/x"));
  told("rename_nested_parent", rename((tree + "/sub").c_str(), (tree + "/s2").c_str()) == 0);
  told("write_hard_link", writes(tree + "/hl"));
  told("link_out", link((tree + "/src/a.c").c_str(), (outside + "/l").c_str()) == 0);
  told("link_config", link((git + "/config").c_str(), (tree + "/l").c_str()) == 0);
  told("new_nested_repository", mkdir((tree + "/new").c_str(), 0755) == 0 &&
                                    mkdir((tree + "/new/.git").c_str(), 0755) == 0 &&
                                    mkdir((tree + "/new/.git/hooks").c_str(), 0755) == 0 &&
                                    makes(tree + "/new/.git/hooks/x"));
}

void mounts(const std::string& tree) {
  told("umount", umount2((tree + "/.git/config").c_str(), MNT_DETACH) == 0);
  told("remount", mount(nullptr, (tree + "/.git/config").c_str(), nullptr, MS_REMOUNT | MS_BIND,
                        nullptr) == 0);
  told("unshare_user", unshare(CLONE_NEWUSER) == 0);
  told("clone_user", [] {
    const long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
      _exit(0);
    }
    return pid > 0;
  }());
  told("clone3", syscall(SYS_clone3, nullptr, 0) >= 0);
  told("setns", setns(0, 0) == 0);
  told("chroot", chroot("/tmp") == 0);
}

void peers(char** words) {
  const int port = std::atoi(words[5]);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_port = htons(static_cast<std::uint16_t>(port));
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  told("connect_path", connects_unix(words[6], false));
  told("connect_abstract", connects_unix(words[7], true));
  told("connect_loopback", connects(AF_INET, &loopback, sizeof loopback));
  sockaddr_in far = loopback;
  inet_pton(AF_INET, "203.0.113.1", &far.sin_addr);
  told("connect_far", connects(AF_INET, &far, sizeof far));
  told("family_vsock", has_family(AF_VSOCK, SOCK_STREAM));
  told("family_netlink", has_family(AF_NETLINK, SOCK_RAW));
  told("family_alg", has_family(AF_ALG, SOCK_SEQPACKET));
  told("family_packet", has_family(AF_PACKET, SOCK_RAW));
  told("family_bluetooth", has_family(AF_BLUETOOTH, SOCK_RAW));
  told("family_high_bits", syscall(SYS_socket, 0x100000000UL | AF_VSOCK, SOCK_STREAM, 0) >= 0);
  told("family_inet", has_family(AF_INET, SOCK_STREAM));
  int ends[2];
  told("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const pid_t host = std::atoi(words[4]);
  told("signal_host", kill(host, 0) == 0);
  told("read_host_environment", reads("/proc/" + std::string(words[4]) + "/environ"));
  told("ptrace_first", ptrace(PTRACE_ATTACH, 1, nullptr, nullptr) == 0);
  told("inherited", fcntl(std::atoi(words[8]), F_GETFD) >= 0);
}

void calls() {
  char memory[256] = {};
  told("io_uring", syscall(SYS_io_uring_setup, 1, memory) >= 0);
  told("keyctl", syscall(SYS_keyctl, 0, -3, 0) >= 0);
  told("add_key", syscall(SYS_add_key, "user", "a", "b", 1, -3) >= 0);
  told("request_key", syscall(SYS_request_key, "user", "a", nullptr, 0) >= 0);
  told("bpf", syscall(SYS_bpf, 0, nullptr, 0) >= 0);
  const char letter = 'x';
  told("tiocsti", ioctl(0, TIOCSTI, &letter) == 0);
  told("tiocsti_high_bit", syscall(SYS_ioctl, 0, 0x100000000UL | TIOCSTI, &letter) == 0);
  told("tioclinux", ioctl(0, TIOCLINUX, &letter) == 0);
  const int terminal = open("/dev/tty", O_RDWR);
  told("tiocsti_tty", ioctl(terminal, TIOCSTI, &letter) == 0);
  shut(terminal);
  std::printf("x32_signal %d\n", signal_of([] { syscall(0x40000000 | SYS_getpid); }));
#ifdef __x86_64__
  std::printf("i386_signal %d\n", signal_of([] {
                long out = 0;
                __asm__ volatile("int $0x80" : "=a"(out) : "a"(20L) : "memory");
              }));
#endif
  std::printf("no_new_privileges %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  int left = 0;
  for (int capability = 0; capability < 64; ++capability) {
    left += prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 ? 1 : 0;
  }
  std::printf("capabilities_left %d\n", left);
  std::printf("uid %u\n", getuid());
  std::printf("secret %d\n", std::getenv("SECRET") != nullptr ? 1 : 0);
  std::printf("pid %d\n", getpid());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    return 2;
  }
  files(argv[1], argv[2], argv[3]);
  protections(argv[2], argv[3]);
  mounts(argv[2]);
  peers(argv);
  calls();
  return 0;
}
