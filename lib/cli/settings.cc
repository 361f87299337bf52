#include "cli/settings.h"

#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "json/reader.h"
#include "json/value.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

extern char** environ;

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxSettingsBytes = 64 * 1024;
constexpr std::size_t kMaxUrlBytes = 2048;
constexpr mode_t kOthers = 0077;

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() ? found->second : std::string();
}

Error bad_file(const std::string& path, const std::string& what) {
  return usage_error("settings file " + sandboxkit::quoted(path) + " " + what);
}

/// Absent is an empty connection.
Result<Connection> read_settings(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return errno == ENOENT || path.empty()
               ? Result<Connection>(Connection{})
               : Result<Connection>(
                     bad_file(path, std::string("cannot be read: ") + std::strerror(errno)));
  }
  struct stat about {};
  if (fstat(file.get(), &about) != 0 || about.st_uid != geteuid()) {
    return bad_file(path, "belongs to somebody else");
  }
  if ((about.st_mode & kOthers) != 0) {
    return bad_file(path, "can be read by others, and it holds a key: run chmod 600 on it");
  }
  const auto text = read_all(file.get(), kMaxSettingsBytes);
  if (!text) {
    return text.error();
  }
  const auto value = json::parse(*text);
  if (!value) {
    return bad_file(path, "is no JSON: " + value.error().message);
  }
  json::Reader reader(*value, "");
  Connection connection;
  connection.url = reader.optional_string("url", kMaxUrlBytes).value_or("");
  connection.key = reader.optional_string("key", kMaxUrlBytes).value_or("");
  if (auto status = reader.finish(); !status) {
    return bad_file(path, "is wrong: " + status.error().message);
  }
  return connection;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

std::string settings_path(const Environment& environment) {
  if (const auto base = value_of(environment, "XDG_CONFIG_HOME"); base.starts_with('/')) {
    return base + "/sandboxkit/config.json";
  }
  const auto home = value_of(environment, "HOME");
  return home.empty() ? std::string() : home + "/.config/sandboxkit/config.json";
}

Result<ClientConfig> connection_settings(const Connection& flags, const Environment& environment) {
  Connection chosen = flags;
  if (chosen.url.empty()) {
    chosen.url = value_of(environment, "SANDBOXKIT_URL");
  }
  if (chosen.key.empty()) {
    chosen.key = value_of(environment, "SANDBOXKIT_KEY");
  }
  if (chosen.url.empty() || chosen.key.empty()) {
    const auto stored = read_settings(settings_path(environment));
    if (!stored) {
      return stored.error();
    }
    // A stored key is for the stored controller: it is not sent to another one.
    const bool same = chosen.url.empty() || chosen.url == stored->url;
    chosen.url = chosen.url.empty() ? stored->url : chosen.url;
    chosen.key = chosen.key.empty() && same ? stored->key : chosen.key;
  }
  if (chosen.url.empty()) {
    return usage_error(
        "no controller is named: set SANDBOXKIT_URL, give --url, or run `sandboxkit login`");
  }
  if (chosen.key.empty()) {
    return Error{ErrorCode::kUnauthenticated,
                 "no key is given for " + sandboxkit::quoted(chosen.url)};
  }
  return ClientConfig{.url = chosen.url, .key = std::string(trim(chosen.key))};
}

Status save_settings(const Connection& connection, const std::string& path) {
  if (path.empty()) {
    return usage_error("there is no home directory to keep settings in: set HOME");
  }
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  if (problem) {
    return bad_file(path, "cannot be written: " + problem.message());
  }
  const json::Value value = json::Object{{"url", connection.url}, {"key", connection.key}};
  return write_file_atomically(path, json::dump(value) + "\n", 0600);
}

}  // namespace sandboxkit::cli
