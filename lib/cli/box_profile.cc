#include "cli/box_profile.h"

#include "base/text.h"
#include "cli/files.h"
#include "cli/gate_session.h"
#include "json/reader.h"

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <set>
#include <utility>

#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxBytes = 64 * 1024;
constexpr std::size_t kMaxEntries = 256;
constexpr std::size_t kMaxTextBytes = 4096;
constexpr const char* kEnding = ".json";

std::vector<GateRoot> read_places(json::Reader& reader) {
  std::vector<GateRoot> out;
  const json::Value* member = reader.member("places");
  const json::Array* list = member != nullptr ? member->as_array() : nullptr;
  if (member != nullptr && (list == nullptr || list->size() > kMaxEntries)) {
    reader.refuse("places", "must be an array of at most " + std::to_string(kMaxEntries));
  }
  for (std::size_t i = 0; list != nullptr && i < list->size() && reader.ok(); ++i) {
    json::Reader place((*list)[i], reader.path_of("places") + "[" + std::to_string(i) + "]");
    const std::string path = place.required_string("path", kMaxTextBytes);
    const std::string access = place.required_string("access", kMaxTextBytes);
    if (place.ok() && access != "ro" && access != "rw") {
      place.refuse("access", "must be `ro` or `rw`");
    }
    if (place.ok() && !path.starts_with("~/") && !path.starts_with('/')) {
      place.refuse("path", "must begin with `~/` or `/`");
    }
    if (Status finished = place.finish(); !finished) {
      reader.refuse(finished.error());
    }
    out.push_back({path, access == "rw" ? RootAccess::kReadWrite : RootAccess::kReadOnly});
  }
  return out;
}

/// Where profiles lie, the owner's own first.
std::vector<std::string> folders() {
  std::vector<std::string> out;
  const std::string config = variable("XDG_CONFIG_HOME");
  const std::string home = variable("HOME");
  if (config.starts_with('/') || !home.empty()) {
    out.push_back((config.starts_with('/') ? config : home + "/.config") + "/sandboxkit/profiles");
  }
  // A command that was moved with its files finds them beside it.
  std::array<char, PATH_MAX> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) > 0) {
    const auto prefix = std::filesystem::path(self.data()).parent_path().parent_path();
    out.push_back((prefix / "share/sandboxkit/profiles").string());
  }
  out.emplace_back(SANDBOXKIT_PROFILE_DIR);
  return out;
}

std::string known_names() {
  std::set<std::string> names;
  for (const std::string& folder : folders()) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == kEnding) {
        names.insert(entry.path().stem().string());
      }
    }
  }
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out.empty() ? "none" : out;
}

Result<BoxProfile> load_file(const std::string& file) {
  const auto text = read_file(file, kMaxBytes);
  if (!text) {
    return text.error();
  }
  auto profile = parse_box_profile(*text);
  if (!profile) {
    return in_file("profile", file, profile.error());
  }
  profile->name = std::filesystem::path(file).stem().string();
  return profile;
}

}  // namespace

Result<BoxProfile> parse_box_profile(std::string_view json) {
  const auto value = json::parse(json, {.max_bytes = kMaxBytes});
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  BoxProfile out;
  if (reader.required_int("version", 1, 1) != 1) {
    reader.refuse("version", "must be 1");
  }
  const auto list = [&](const char* name) {
    return reader.optional_strings(name, kMaxEntries, kMaxTextBytes)
        .value_or(std::vector<std::string>());
  };
  out.domains = list("domains");
  out.variables = list("variables");
  out.seeds = list("seeds");
  out.environment =
      reader.optional_string_map("environment", kMaxEntries, kMaxTextBytes, kMaxTextBytes)
          .value_or(std::map<std::string, std::string>());
  out.places = read_places(reader);
  out.allow_nested = reader.optional_bool("allow_nested").value_or(false);
  for (const std::string& seed : out.seeds) {
    if (!seed.starts_with("~/")) {
      reader.refuse("seeds", sandboxkit::quoted(seed) + " must begin with `~/`");
    }
  }
  if (Status finished = reader.finish(); !finished) {
    return finished.error();
  }
  return out;
}

Result<BoxProfile> load_box_profile(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(kEnding)) {
    return load_file(name);
  }
  for (const std::string& folder : folders()) {
    auto found = load_file(folder + "/" + name + kEnding);
    if (found || found.error().code != ErrorCode::kNotFound) {
      return found;
    }
  }
  return Error{ErrorCode::kNotFound,
               "there is no profile " + sandboxkit::quoted(name) + "; there is: " + known_names()};
}

}  // namespace sandboxkit::cli
