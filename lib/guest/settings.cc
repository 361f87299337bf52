#include "guest/settings.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "json/reader.h"

#include <unistd.h>

namespace sandboxkit::guest {
namespace {

constexpr std::size_t kMaxTokenBytes = 512;
constexpr std::size_t kMaxUserBytes = 256;

}  // namespace

Status check_env(const std::map<std::string, std::string>& env) {
  if (env.size() > kMaxEnvEntries) {
    return Error{ErrorCode::kInvalidArgument, "environment has more than 1024 entries", {}, "env"};
  }
  for (const auto& [name, value] : env) {
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
      return Error{
          ErrorCode::kInvalidArgument, "bad environment variable name " + quoted(name), {}, "env"};
    }
    if (value.find('\0') != std::string::npos) {
      return Error{ErrorCode::kInvalidArgument,
                   "environment variable " + quoted(name) + " holds a NUL",
                   {},
                   "env." + name};
    }
  }
  return {};
}

Settings::Settings(const std::vector<std::string>& container_env, AccountFiles accounts)
    : account_files_(std::move(accounts)), own_uid_(::geteuid()), own_gid_(::getegid()) {
  for (const std::string& entry : container_env) {
    const auto equals = entry.find('=');
    if (equals != 0 && equals != std::string::npos) {
      container_env_[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  container_env_.try_emplace("PATH", kDefaultPath);
}

Status Settings::initialize(const json::Value& body, std::string_view shown_token) {
  json::Reader reader(body, "");
  const auto env =
      reader.optional_string_map("envVars", kMaxEnvEntries, kMaxNameBytes, kMaxArgvBytes);
  const auto token = reader.optional_string("accessToken", kMaxTokenBytes);
  const auto user = reader.optional_string("defaultUser", kMaxUserBytes);
  const auto workdir = reader.optional_string("defaultWorkdir", kMaxPathBytes);
  // Known to envd's callers and without a meaning here.
  for (const char* ignored : {"timestamp", "hyperloopIP", "lifecycleID"}) {
    reader.member(ignored);
  }
  if (const Status read = reader.finish(); !read) {
    return read;
  }
  if (initialized_ &&
      (access_token_.empty() || !(equal_constant_time(token.value_or(""), access_token_) ||
                                  equal_constant_time(shown_token, access_token_)))) {
    return Error{ErrorCode::kPermissionDenied,
                 "the sandbox was initialized already; show the same access token to do it again",
                 "already_initialized"};
  }
  if (env) {
    if (const Status good = check_env(*env); !good) {
      return good;
    }
    for (const auto& [name, value] : *env) {
      init_env_[name] = value;
    }
  }
  initialized_ = true;
  access_token_ = token.value_or(access_token_);
  default_user_ = user.value_or(default_user_);
  default_workdir_ = workdir.value_or(default_workdir_);
  return {};
}

bool Settings::token_matches(std::string_view shown) const {
  return access_token_.empty() || equal_constant_time(shown, access_token_);
}

Result<User> Settings::user(std::string_view wanted) {
  return choose_user(account_files_.read(), wanted, default_user_, own_uid_, own_gid_);
}

std::string Settings::workdir_of(const User& user) const {
  return default_workdir_.empty() ? user.home : default_workdir_;
}

std::vector<std::string> Settings::env_for(const User& user,
                                           const std::map<std::string, std::string>& call,
                                           bool terminal) const {
  EnvMap all = container_env_;
  all["HOME"] = user.home;
  all["USER"] = user.name;
  all["LOGNAME"] = user.name;
  if (terminal) {
    all["TERM"] = "xterm-256color";
  }
  for (const auto& [name, value] : init_env_) {
    all[name] = value;
  }
  for (const auto& [name, value] : call) {
    all[name] = value;
  }
  std::vector<std::string> entries;
  entries.reserve(all.size());
  for (const auto& [name, value] : all) {
    entries.push_back(name + "=" + value);
  }
  return entries;
}

EnvMap Settings::env() const {
  EnvMap all = container_env_;
  for (const auto& [name, value] : init_env_) {
    all[name] = value;
  }
  return all;
}

}  // namespace sandboxkit::guest
