#include "local/host_session.h"

#include "sandboxkit/gate_files.h"
#include "sandboxkit/system_eyes.h"

#include "agent/host_programs.h"
#include "agent/kept_grants.h"
#include "base/text.h"
#include "io/fd.h"

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit::local {
namespace {

constexpr std::size_t kMaxPolicyBytes = 1U << 20;

Result<SeenPath> directory(const char* option, const std::string& path) {
  auto seen = system_eyes().look({.cwd = "/", .path = path});
  if (path.starts_with('/') && seen && seen->file && seen->file->type == FileType::kDirectory) {
    return seen;
  }
  return Error{
      ErrorCode::kInvalidArgument,
      quoted(path) + (seen ? " is no folder by an absolute path" : ": " + seen.error().message),
      "invalid_argument", option};
}

/// nullopt when there is no file.
Result<std::optional<std::string>> read_small(const std::string& path, std::size_t most) {
  const io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) {
    return errno == ENOENT ? Result(std::optional<std::string>())
                           : io::error_from_errno("open", errno);
  }
  std::string text;
  std::array<char, 64 * 1024> piece{};
  ssize_t got = 0;
  while ((got = ::read(file.get(), piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > most) {
      return Error{ErrorCode::kTooLarge, "is larger than " + std::to_string(most) + " bytes"};
    }
  }
  return got < 0 ? Result<std::optional<std::string>>(io::error_from_errno("read", errno))
                 : std::optional(std::move(text));
}

}  // namespace

Result<GateSession> host_session(const HostPlaces& places, const std::string& path) {
  const auto tree = directory("work_tree", places.tree);
  const auto home = directory("home", places.home);
  if (!tree || !home) {
    return tree ? home.error() : tree.error();
  }
  return GateSession{.tree = tree->canonical,
                     .tree_identity = tree->file->identity,
                     .home = home->canonical,
                     .state_dirs = {places.gate_dir, places.state_dir},
                     .own_files = agent::own_files(),
                     .program_dirs = agent::program_dirs(tree->canonical, path)};
}

Result<GatePolicy> host_policy(const std::string& file) {
  const auto text = read_small(file, kMaxPolicyBytes);
  auto policy = !text   ? Result<GatePolicy>(text.error())
                : *text ? parse_gate_policy(**text, file)
                        : Result<GatePolicy>(GatePolicy::shipped());
  if (!policy) {
    return Error{ErrorCode::kInvalidArgument, quoted(file) + ": " + policy.error().message,
                 "invalid_argument", "policy_file"};
  }
  return policy;
}

Result<HostParts> host_parts(const LocalDriverConfig& config, const std::string& path,
                             const Clock& clock) {
  auto session = host_session({config.tree, config.home, config.gate_dir, config.state_dir}, path);
  auto policy = host_policy(config.gate_dir + "/policy.json");
  if (!session || !policy) {
    return session ? policy.error() : session.error();
  }
  const GrantStore::Options options{.folder = config.gate_dir,
                                    .roots = agent::roots_of(*session, *policy)};
  HostParts parts{std::move(*session), std::move(*policy)};
  parts.grants.log = std::make_unique<agent::GrantLog>(config.gate_dir);
  auto store = GrantStore::open(options, *parts.grants.log, clock);
  if (!store) {
    return store.error();
  }
  parts.grants.store = std::move(*store);
  parts.grants.source = std::make_unique<agent::StoredGrants>(*parts.grants.store);
  auto trail = BoxTrail::open(config.gate_dir);
  if (!trail) {
    return trail.error();
  }
  parts.trail = std::move(*trail);
  return parts;
}

}  // namespace sandboxkit::local
