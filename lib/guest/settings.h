#pragma once

#include "sandboxkit/result.h"

#include "guest/users.h"
#include "json/value.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::guest {

using EnvMap = std::map<std::string, std::string, std::less<>>;

/// Errors: kInvalidArgument for an empty name, a `=` in it, a NUL, or more than kMaxEnvEntries.
Status check_env(const std::map<std::string, std::string>& env);

/// What holds for every later process: the container's environment, what /init said, the accounts.
/// Thread-safety: the loop's thread.
class Settings {
 public:
  /// `container_env` as `NAME=value`.
  Settings(const std::vector<std::string>& container_env, AccountFiles accounts);

  /// The body of POST /init. It may come once; later ones must show the same access token.
  /// Errors: kInvalidArgument; kPermissionDenied for a second caller.
  /// Source: design of the E2B surface, 4.5.
  Status initialize(const json::Value& body, std::string_view shown_token);

  /// Whether a request that shows this token may pass: everything may until /init sets one.
  bool token_matches(std::string_view shown) const;
  const std::string& access_token() const { return access_token_; }

  /// Errors: as `choose_user`.
  Result<User> user(std::string_view wanted);
  const Accounts& accounts() { return account_files_.read(); }
  bool is_root() const { return own_uid_ == 0; }
  /// The folder that relative paths start at, and processes without a cwd.
  std::string workdir_of(const User& user) const;

  /// Environment for a process of `user`: the container's, the account's, /init's, the call's.
  std::vector<std::string> env_for(const User& user, const std::map<std::string, std::string>& call,
                                   bool terminal) const;
  /// The container's and /init's, as GET /envs shows them.
  EnvMap env() const;

 private:
  EnvMap container_env_;
  EnvMap init_env_;
  AccountFiles account_files_;
  uid_t own_uid_;
  gid_t own_gid_;
  bool initialized_ = false;
  std::string access_token_;
  std::string default_user_;
  std::string default_workdir_;
};

}  // namespace sandboxkit::guest
