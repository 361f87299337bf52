#include "base/text.h"
#include "gate/path_text.h"
#include "gate/rules.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr const char* kBuiltIn = "built in";

// Kernel settings, raw memory, raw devices, other terminals. Source: hardlock H5.
constexpr const char* kKernelPlaces[] = {
    "/proc/sys",  "/proc/sysrq-trigger", "/proc/kcore", "/proc/kmem",       "/proc/kallsyms",
    "/dev/mem",   "/dev/kmem",           "/dev/port",   "/dev/kvm",         "/dev/vhost*",
    "/dev/vsock", "/dev/uinput",         "/dev/sd*",    "/dev/nvme*",       "/dev/vd*",
    "/dev/dm-*",  "/dev/loop*",          "/dev/mapper", "/dev/tty?*",       "/dev/pts",
    "/dev/input", "/dev/console",        "/dev/kmsg",   "/dev/userfaultfd",
};
// All of sysfs but what every runtime reads to count cores.
constexpr const char* kSys = "/sys";
constexpr const char* kCores = "/sys/devices/system/cpu";

// Sockets whose other end acts as root, or as the user outside of any box. Source: hardlock H6.
constexpr const char* kControlSockets[] = {
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/user/*/docker.sock",
    "/run/podman",
    "/var/run/podman",
    "/run/user/*/podman",
    "/run/containerd",
    "/var/run/containerd",
    "/run/crio",
    "/var/run/crio",
    "/run/libvirt",
    "/var/run/libvirt",
    "/run/systemd/private",
    "/run/systemd/io.system.*",
    "/run/user/*/systemd",
    "/run/dbus/system_bus_socket",
    "/var/run/dbus/system_bus_socket",
    "/run/user/*/bus",
    "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/var/lib/incus/unix.socket",
    "~/.docker/run/docker.sock",
};

constexpr std::pair<std::string_view, std::string_view> kSocketPrograms[] = {
    {"docker", "/var/run/docker.sock"},
    {"docker-compose", "/var/run/docker.sock"},
    {"nerdctl", "/run/containerd"},
    {"ctr", "/run/containerd"},
    {"crictl", "/run/crio"},
    {"virsh", "/run/libvirt"},
    {"lxc", "/var/lib/lxd/unix.socket"},
    {"incus", "/var/lib/incus/unix.socket"},
    {"systemctl", "/run/systemd/private"},
    {"systemd-run", "/run/systemd/private"},
};

constexpr std::string_view kPrivilegePrograms[] = {
    "sudo",   "sudoedit",  "su",        "doas",    "pkexec",   "runuser",    "setpriv",
    "setcap", "newuidmap", "newgidmap", "nsenter", "chroot",   "pivot_root", "switch_root",
    "mount",  "umount",    "kexec",     "insmod",  "modprobe", "rmmod",      "bpftool",
};

constexpr std::string_view kMetadataNames[] = {
    "metadata",      "metadata.google.internal",   "metadata.goog",
    "instance-data", "instance-data.ec2.internal",
};
constexpr std::string_view kMetadataAddresses[] = {
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
};

}  // namespace

Result<std::vector<Rule>> hardlocks_of(const GateSession& session, const Anchors& anchors) {
  std::vector<Rule> rules;
  Status status;
  const auto lock = [&](const std::string& pattern, const std::set<GateOperation>& operations) {
    auto compiled = PathPattern::compile(pattern, anchors, Matching::kFolded);
    if (!compiled) {
      status = compiled.error();
      return;
    }
    rules.push_back(Rule{std::move(*compiled), OperationMask(operations), kBuiltIn});
    rules.back().is_hardlock = true;
  };
  for (const std::string& directory : session.state_dirs) {
    lock(escape_pattern(directory), every_operation());
  }
  for (const std::string& pattern : session.own_files) {
    lock(pattern, changing_operations());
  }
  for (const char* place : kKernelPlaces) {
    lock(place, every_operation());
  }
  lock(kSys, every_operation());
  rules.back().spared_for_reading = kCores;
  for (const char* socket : kControlSockets) {
    lock(socket, every_operation());
  }
  if (!status) {
    return status.error();
  }
  return rules;
}

bool is_locked_variable(std::string_view name) {
  constexpr std::array kPrefixes = {"LD_", "DYLD_", "SANDBOXKIT_", "BASH_FUNC_"};
  constexpr std::array<std::string_view, 3> kNames = {"GCONV_PATH", "BASH_ENV", "ENV"};
  return std::ranges::any_of(kPrefixes, [&](const char* p) { return name.starts_with(p); }) ||
         std::ranges::find(kNames, name) != kNames.end();
}

bool is_privilege_program(std::string_view name) {
  return std::ranges::find(kPrivilegePrograms, name) != std::end(kPrivilegePrograms);
}

std::string_view control_socket_of(std::string_view program) {
  const auto* found = std::ranges::find(kSocketPrograms, program,
                                        &std::pair<std::string_view, std::string_view>::first);
  return found != std::end(kSocketPrograms) ? found->second : std::string_view();
}

bool is_metadata(const EgressTarget& target) {
  if (!target.address()) {
    return std::ranges::find(kMetadataNames, target.host()) != std::end(kMetadataNames);
  }
  const IpAddress& address = *target.address();
  const auto& bytes = address.bytes;
  const bool link_local = address.is_v6 ? bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80
                                        : bytes[0] == 169 && bytes[1] == 254;
  return link_local ||
         std::ranges::find(kMetadataAddresses, address.to_string()) != std::end(kMetadataAddresses);
}

}  // namespace sandboxkit::gate
