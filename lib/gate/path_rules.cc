#include "gate/path_rules.h"

#include "base/text.h"

#include <algorithm>
#include <array>

namespace sandboxkit::gate {
namespace {

constexpr const char* kBuiltIn = "built in";

// Kernel settings, raw memory, raw devices. Source: design of the gate, hardlock H5.
constexpr std::array kKernelPlaces = {
    "/proc/sys",        "/proc/sysrq-trigger", "/proc/kcore", "/sys",
    "/dev/mem",         "/dev/kmem",           "/dev/port",   "/dev/kvm",
    "/dev/vhost-vsock", "/dev/vsock",          "/dev/uinput",
};
// Sockets whose other end acts as root. Source: design of the gate, hardlock H6.
constexpr std::array kControlSockets = {
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/libvirt",
    "/var/run/libvirt",
    "/run/systemd/private",
    "/run/dbus/system_bus_socket",
    "/var/lib/lxd/unix.socket",
    "/var/run/containerd",
};

bool covers_ignoring_case(std::string_view directory, std::string_view path) {
  return covers(ascii_lower(directory), ascii_lower(path));
}

}  // namespace

std::set<GateOperation> every_operation() {
  std::set<GateOperation> all;
  for (int i = 0; i <= static_cast<int>(GateOperation::kDevice); ++i) {
    all.insert(static_cast<GateOperation>(i));
  }
  return all;
}

std::set<GateOperation> changing_operations() {
  using enum GateOperation;
  return {kWrite, kCreate, kDelete, kMeta, kRename, kLink, kSymlink, kMount};
}

bool takes_path(GateOperation operation) {
  using enum GateOperation;
  switch (operation) {
    case kRead:
    case kList:
    case kStat:
    case kWrite:
    case kCreate:
    case kDelete:
    case kMeta:
    case kRename:
    case kLink:
    case kSymlink:
    case kExec:
    case kUnix:
    case kMount:
    case kDevice:
      return true;
    case kEnv:
    case kConnect:
    case kListen:
    case kSignal:
    case kPtrace:
      return false;
  }
  return true;
}

bool is_plain_absolute(std::string_view path) {
  return !path.empty() && path.size() <= kMaxPathBytes && path.front() == '/' &&
         path.find('\0') == std::string_view::npos && plain_path("/", path) == path;
}

std::string plain_path(std::string_view cwd, std::string_view path) {
  const std::string joined =
      path.starts_with('/') ? std::string(path) : std::string(cwd) + "/" + std::string(path);
  std::vector<std::string_view> kept;
  for (const std::string_view part : split(joined, '/')) {
    if (part == "..") {
      if (!kept.empty()) {
        kept.pop_back();
      }
    } else if (!part.empty() && part != ".") {
      kept.push_back(part);
    }
  }
  std::string plain;
  for (const std::string_view part : kept) {
    plain.append("/").append(part);
  }
  return plain.empty() ? "/" : plain;
}

bool covers(std::string_view directory, std::string_view path) {
  if (directory == "/") {
    return path.starts_with('/');
  }
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

bool denies(const GateRule& rule, const Access& access) {
  if (!rule.operations.contains(access.operation)) {
    return false;
  }
  if (rule.identity && access.seen.identity == rule.identity) {
    return true;
  }
  const auto hits = [&](const std::string& name) { return covers_ignoring_case(rule.path, name); };
  return hits(access.requested) || hits(access.seen.canonical) ||
         std::ranges::any_of(access.seen.links, hits);
}

bool takes_away(const GateRule& rule, const Access& access) {
  return access.operation == GateOperation::kDelete &&
         rule.operations.contains(GateOperation::kDelete) &&
         covers_ignoring_case(access.seen.canonical, rule.path);
}

std::vector<GateRule> hardlocks_of(const GateSelf& self) {
  std::vector<GateRule> rules;
  const auto lock = [&](const std::string& path, std::set<GateOperation> operations) {
    rules.push_back(GateRule{path, std::move(operations), std::nullopt, kBuiltIn});
  };
  lock(self.state_dir, every_operation());
  for (const std::string& directory : self.install_dirs) {
    lock(directory, changing_operations());
  }
  for (const char* place : kKernelPlaces) {
    lock(place, every_operation());
  }
  for (const char* socket : kControlSockets) {
    lock(socket, every_operation());
  }
  return rules;
}

bool is_locked_variable(std::string_view name) {
  constexpr std::array kPrefixes = {"LD_", "DYLD_", "SANDBOXKIT_", "BASH_FUNC_"};
  constexpr std::array<std::string_view, 3> kNames = {"GCONV_PATH", "BASH_ENV", "ENV"};
  return std::ranges::any_of(kPrefixes, [&](const char* p) { return name.starts_with(p); }) ||
         std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace sandboxkit::gate
