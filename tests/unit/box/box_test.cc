#include "sandboxkit/box.h"

#include "world.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

using namespace box_test;
namespace fs = std::filesystem;

/// Sockets of the host that a box must not reach.
struct Host {
  explicit Host(const World& world) : path(world.tree() + "/host.sock") {
    sockaddr_un by_path{};
    by_path.sun_family = AF_UNIX;
    path.copy(by_path.sun_path, sizeof by_path.sun_path - 1);
    unix_socket = listening(AF_UNIX, &by_path, sizeof by_path);
    sockaddr_un by_name{};
    by_name.sun_family = AF_UNIX;
    name.copy(by_name.sun_path + 1, sizeof by_name.sun_path - 1);
    abstract_socket =
        listening(AF_UNIX, &by_name,
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tcp_socket = listening(AF_INET, &loopback, sizeof loopback);
    socklen_t size = sizeof loopback;
    getsockname(tcp_socket.get(), reinterpret_cast<sockaddr*>(&loopback), &size);
    port = std::to_string(ntohs(loopback.sin_port));
  }

  static io::Fd listening(int family, const void* address, socklen_t size) {
    io::Fd out(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind(out.get(), static_cast<const sockaddr*>(address), size) == 0);
    REQUIRE(listen(out.get(), 1) == 0);
    return out;
  }

  std::string path;
  std::string name = "sandboxkit-box-test-" + std::to_string(getpid());
  std::string port;
  io::Fd unix_socket;
  io::Fd abstract_socket;
  io::Fd tcp_socket;
};

/// What the probe printed, by name.
std::map<std::string, int> probe(const World& world, BoxPlan plan) {
  // A socket's path takes 107 bytes, less than a build folder may have: it is asked from there.
  const auto before = fs::current_path();
  fs::current_path(world.tree());
  Host host(world);
  const io::Fd inherited(open("/etc", O_RDONLY | O_DIRECTORY));  // No close-on-exec.
  BoxCommand command = shell(world, "");
  command.argv = {world.tree() + "/probe",        world.home(), world.tree(), world.outside(),
                  std::to_string(getpid()),       host.port,    "host.sock",  host.name,
                  std::to_string(inherited.get())};
  setenv("SECRET", "s", 1);
  const Ran ran = run(plan, command, world.options());
  fs::current_path(before);
  INFO(ran.output);
  REQUIRE_MESSAGE(ran.end, (ran.end ? "" : ran.end.error().message));
  REQUIRE(ran.end->exit_code == 0);
  std::map<std::string, int> out;
  std::istringstream lines(ran.output);
  std::string name;
  for (int value = 0; lines >> name >> value;) {
    out[name] = value;
  }
  return out;
}

// The gate's bypasses B26, B27, B28, B29, B30, B33, B34, B35 and B43.
// B7, B9, B10, B26, B27, B28, B29, B30, B33, B34, B35 and B43.
TEST_CASE("the probe matrix: what a box must not let happen does not happen") {
  const World world;
  BoxPlan plan = world.plan();
  plan.places.push_back(world.place(world.outside() + "/granted", BoxAccess::kReadWrite));
  const auto got = probe(world, plan);

  const std::vector<std::string> works{"read_tree",         "read_usr",     "write_tree",
                                       "make_in_tree",      "make_in_home", "make_in_tmp",
                                       "make_in_shm",       "write_index",  "write_granted",
                                       "write_device_null", "family_inet",  "pair"};
  for (const std::string& name : works) {
    CAPTURE(name);
    CHECK(got.at(name) == 0);
  }
  const std::vector<std::pair<std::string, int>> refused{
      {"read_key", ENOENT},
      {"read_netrc", ENOENT},
      {"read_other_home_file", ENOENT},
      {"read_hidden_in_tree", EACCES},
      {"read_key_by_link", ENOENT},
      {"read_key_by_proc_root", ENOENT},
      {"write_outside", EROFS},
      {"make_outside", EROFS},
      {"truncate_outside", EROFS},
      {"chmod_outside", EROFS},
      {"utimes_outside", EROFS},
      {"xattr_outside", EROFS},
      {"make_in_dev", EROFS},
      {"make_in_root", EROFS},
      {"write_hook", EROFS},
      {"make_hook", EROFS},
      {"write_config", EROFS},
      {"rename_onto_config", EBUSY},
      {"unlink_config", EBUSY},
      {"rename_config_away", EBUSY},
      {"unlink_hidden", EBUSY},
      {"make_absent", EEXIST},
      {"write_absent", EACCES},
      {"rename_to_absent", EBUSY},
      {"symlink_absent", EEXIST},
      {"link_absent", EEXIST},
      {"mkdir_absent", EEXIST},
      {"unlink_absent", EBUSY},
      {"rename_pinned", EBUSY},
      {"exchange_pinned", EBUSY},
      {"write_nested_hook", EROFS},
      {"rename_nested_parent", EBUSY},
      {"write_hard_link", EROFS},
      {"link_out", EROFS},
      {"link_config", EXDEV},
      {"umount", EPERM},
      {"remount", EPERM},
      {"unshare_user", EPERM},
      {"clone_user", EPERM},
      {"clone3", ENOSYS},
      {"setns", EPERM},
      {"chroot", EPERM},
      {"connect_path", EAFNOSUPPORT},
      {"connect_abstract", EAFNOSUPPORT},
      {"connect_loopback", ECONNREFUSED},
      {"connect_far", ENETUNREACH},
      {"family_vsock", EAFNOSUPPORT},
      {"family_netlink", EAFNOSUPPORT},
      {"family_alg", EAFNOSUPPORT},
      {"family_packet", EAFNOSUPPORT},
      {"family_bluetooth", EAFNOSUPPORT},
      {"family_high_bits", EAFNOSUPPORT},
      {"signal_host", ESRCH},
      {"read_host_environment", ENOENT},
      {"ptrace_first", EPERM},
      {"inherited", EBADF},
      {"io_uring", EPERM},
      {"keyctl", EPERM},
      {"add_key", EPERM},
      {"request_key", EPERM},
      {"bpf", EPERM},
      {"tiocsti", EPERM},
      {"tiocsti_high_bit", EPERM},
      {"tioclinux", EPERM},
  };
  for (const auto& row : refused) {
    CAPTURE(row.first);
    CHECK(got.at(row.first) == row.second);
  }
  CHECK(got.at("read_key_by_first_process") != 0);
  CHECK(got.at("read_first_environment") != 0);
  CHECK(got.at("tiocsti_tty") != 0);
  CHECK(got.at("x32_signal") == SIGSYS);
#ifdef __x86_64__
  // Where the kernel has the other interface at all, the filter ends who calls it.
  CHECK((got.at("i386_signal") == SIGSYS || got.at("i386_signal") == SIGSEGV));
#endif
  CHECK(got.at("no_new_privileges") == 1);
  CHECK(got.at("capabilities_left") == 0);
  CHECK(got.at("uid") == static_cast<int>(geteuid()));
  CHECK(got.at("secret") == 0);

  // The host is as it was, but for what may be written.
  CHECK(text_of(world.tree() + "/src/a.c") == "of the host\nx");
  CHECK(text_of(world.outside() + "/granted/file") == "of the host\nx");
  for (const std::string& path :
       {world.home() + "/.bashrc", world.tree() + "/.git/config", world.tree() + "/.git/hooks/x",
        world.tree() + "/.env", world.outside() + "/file"}) {
    CAPTURE(path);
    CHECK(text_of(path) == "of the host\n");
  }
  CHECK(!exists(world.tree() + "/.mcp.json"));
  CHECK(!exists(world.home() + "/made"));
  CHECK(!exists("/tmp/made"));
}

}  // namespace
}  // namespace sandboxkit
