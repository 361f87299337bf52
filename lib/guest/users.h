#pragma once

#include "sandboxkit/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::guest {

/// An account of the sandbox, as a process is started with it.
struct User {
  std::string name;
  uid_t uid;
  gid_t gid;
  std::string home;
  std::vector<gid_t> groups{};  ///< Supplementary ones.
};

/// The accounts of the sandbox, read from the text of its own /etc/passwd and /etc/group. We parse
/// them ourselves: a static program must not load the sandbox's NSS modules into PID 1.
class Accounts {
 public:
  Accounts() = default;
  Accounts(std::string_view passwd, std::string_view group);

  /// By name, or by number when no account has that name.
  std::optional<User> find(std::string_view name_or_uid) const;
  std::optional<User> find(uid_t uid) const;
  /// The number as text when nobody has a name for it.
  std::string user_name(uid_t uid) const;
  std::string group_name(gid_t gid) const;

 private:
  struct Group {
    std::string name;
    gid_t gid;
    std::vector<std::string> members;
  };
  User with_groups(User user) const;
  std::vector<User> users_;
  std::vector<Group> groups_;
};

/// Reads the accounts again whenever the files changed.
class AccountFiles {
 public:
  AccountFiles(std::string passwd_path, std::string group_path)
      : passwd_path_(std::move(passwd_path)), group_path_(std::move(group_path)) {}
  const Accounts& read();

 private:
  std::string passwd_path_;
  std::string group_path_;
  std::string seen_;  // inode, time and size of both files
  Accounts accounts_;
};

/// Picks the account for a call: the named one, or the default (`user` when it exists and we are
/// root, else our own).
/// Errors: kUnauthenticated `unknown_user` "invalid username: 'x'"; kPermissionDenied when we are
/// not root and the account is not our own. Source: design of the E2B surface, 4.1.
Result<User> choose_user(const Accounts& accounts, std::string_view wanted,
                         std::string_view default_user, uid_t own_uid, gid_t own_gid);

}  // namespace sandboxkit::guest
