#include "guest/users.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/small_file.h"

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

constexpr std::uint64_t kMaxId = 0xfffffffe;  // (uid_t)-1 means "leave as it is" to setresuid

std::string fingerprint(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return "-";
  }
  return std::to_string(status.st_ino) + "." + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec) + "." + std::to_string(status.st_size) + ";";
}

/// The home of an account that /etc/passwd does not know.
std::string guessed_home() { return ::access("/home/user", W_OK) == 0 ? "/home/user" : "/tmp"; }

}  // namespace

Accounts::Accounts(std::string_view passwd, std::string_view group) {
  for (const std::string_view line : split(passwd, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 6 || fields[0].empty()) {
      continue;
    }
    const auto uid = parse_decimal(fields[2], kMaxId);
    const auto gid = parse_decimal(fields[3], kMaxId);
    if (uid && gid) {
      const bool rooted = fields[5].starts_with('/');
      users_.push_back({std::string(fields[0]), static_cast<uid_t>(*uid), static_cast<gid_t>(*gid),
                        rooted ? std::string(fields[5]) : "/"});
    }
  }
  for (const std::string_view line : split(group, '\n')) {
    const auto fields = split(line, ':');
    const auto gid = fields.size() < 4 ? std::nullopt : parse_decimal(fields[2], kMaxId);
    if (!gid) {
      continue;
    }
    Group entry{std::string(fields[0]), static_cast<gid_t>(*gid), {}};
    for (const std::string_view member : split(fields[3], ',')) {
      entry.members.emplace_back(member);
    }
    groups_.push_back(std::move(entry));
  }
}

User Accounts::with_groups(User user) const {
  for (const Group& group : groups_) {
    if (std::ranges::find(group.members, user.name) != group.members.end()) {
      user.groups.push_back(group.gid);
    }
  }
  if (std::ranges::find(user.groups, user.gid) == user.groups.end()) {
    user.groups.push_back(user.gid);
  }
  return user;
}

std::optional<User> Accounts::find(std::string_view name_or_uid) const {
  const auto found = std::ranges::find(users_, name_or_uid, &User::name);
  if (found != users_.end()) {
    return with_groups(*found);
  }
  const auto uid = parse_decimal(name_or_uid, kMaxId);
  return uid ? find(static_cast<uid_t>(*uid)) : std::nullopt;
}

std::optional<User> Accounts::find(uid_t uid) const {
  const auto found = std::ranges::find(users_, uid, &User::uid);
  return found == users_.end() ? std::nullopt : std::optional(with_groups(*found));
}

std::string Accounts::user_name(uid_t uid) const {
  const auto found = std::ranges::find(users_, uid, &User::uid);
  return found == users_.end() ? std::to_string(uid) : found->name;
}

std::string Accounts::group_name(gid_t gid) const {
  const auto found = std::ranges::find(groups_, gid, &Group::gid);
  return found == groups_.end() ? std::to_string(gid) : found->name;
}

const Accounts& AccountFiles::read() {
  const std::string now = fingerprint(passwd_path_) + fingerprint(group_path_);
  if (now != seen_) {
    // A file that is missing or absurd has no accounts: then only our own number can be used.
    accounts_ = Accounts(read_small_file(passwd_path_, kMaxAccountFileBytes).value_or(""),
                         read_small_file(group_path_, kMaxAccountFileBytes).value_or(""));
    seen_ = now;
  }
  return accounts_;
}

Result<User> choose_user(const Accounts& accounts, std::string_view wanted,
                         std::string_view default_user, uid_t own_uid, gid_t own_gid) {
  std::optional<User> own = accounts.find(own_uid);
  if (!own) {
    own = User{std::to_string(own_uid), own_uid, own_gid, guessed_home()};
  }
  if (wanted.empty()) {
    wanted = default_user;
  }
  if (wanted.empty()) {
    const auto user = own_uid == 0 ? accounts.find("user") : std::nullopt;
    return user ? *user : *own;
  }
  auto user = accounts.find(wanted);
  if (!user && wanted == own->name) {
    user = own;
  }
  if (!user) {
    return Error{ErrorCode::kUnauthenticated, "invalid username: '" + std::string(wanted) + "'",
                 "unknown_user", "user"};
  }
  if (own_uid != 0 && user->uid != own_uid) {
    return Error{ErrorCode::kPermissionDenied,
                 "this sandbox runs everything as '" + own->name + "' and cannot act as '" +
                     user->name + "': create it with profile `sudo` for other users",
                 "permission_denied", "user"};
  }
  return *user;
}

}  // namespace sandboxkit::guest
