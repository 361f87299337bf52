#include "gate/path_text.h"

#include "base/text.h"

#include <algorithm>
#include <array>

namespace sandboxkit::gate {
namespace {

constexpr std::array<std::string_view, 6> kMagicLinks = {"root", "cwd",       "exe",
                                                         "fd",   "map_files", "task"};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_magic(const std::vector<std::string_view>& at) {
  if (at.size() == 2 && at[0] == "dev" && at[1] == "fd") {
    return true;
  }
  const bool in_process = at.size() >= 3 && at[0] == "proc" &&
                          (at[1] == "self" || at[1] == "thread-self" || is_number(at[1]));
  // Below task stands each thread's own folder, with the same links again.
  return in_process && std::ranges::find(kMagicLinks, at[2]) != kMagicLinks.end();
}

}  // namespace

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> kept;
  kept.reserve(static_cast<std::size_t>(std::ranges::count(path, '/')) + 1);
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (!part.empty() && part != ".") {
      kept.push_back(part);
    }
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return kept;
}

bool is_plain_absolute(std::string_view path) {
  return !path.empty() && path.size() <= kMaxPathBytes && path.front() == '/' &&
         path.find('\0') == std::string_view::npos && plain_path("/", path) == path;
}

bool is_base(std::string_view cwd) {
  return cwd.starts_with('/') && cwd.size() <= kMaxPathBytes &&
         cwd.find('\0') == std::string_view::npos;
}

std::string joined(std::string_view cwd, std::string_view path) {
  return path.starts_with('/') ? std::string(path) : std::string(cwd) + "/" + std::string(path);
}

std::string plain_path(std::string_view cwd, std::string_view path) {
  const std::string whole = joined(cwd, path);
  std::vector<std::string_view> kept;
  for (const std::string_view part : components_of(whole)) {
    if (part != "..") {
      kept.push_back(part);
    } else if (!kept.empty()) {
      kept.pop_back();
    }
  }
  std::string plain;
  plain.reserve(whole.size());
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

std::string_view parent_of(std::string_view plain) {
  const auto slash = plain.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? std::string_view("/")
                                                       : plain.substr(0, slash);
}

std::string_view leaf_of(std::string_view plain) { return plain.substr(plain.rfind('/') + 1); }

bool goes_through_magic(std::string_view cwd, std::string_view path) {
  const std::string whole = joined(cwd, path);
  // Each of those links lies in one of the two, under its own name.
  if (whole.find("proc") == std::string::npos && whole.find("dev") == std::string::npos) {
    return false;
  }
  std::vector<std::string_view> at;
  for (const std::string_view part : components_of(whole)) {
    if (part == "..") {
      if (!at.empty()) {
        at.pop_back();
      }
      continue;
    }
    at.push_back(part);
    if (is_magic(at)) {
      return true;
    }
  }
  return false;
}

bool is_in_other_process(std::string_view plain) {
  if (plain.find("proc") == std::string_view::npos) {
    return false;
  }
  const auto parts = components_of(plain);
  return parts.size() >= 2 && parts[0] == "proc" && is_number(parts[1]);
}

bool is_own_by_spelling(std::string_view plain) {
  return covers("/proc/self", plain) || covers("/proc/thread-self", plain) ||
         plain == "/dev/stdin" || plain == "/dev/stdout" || plain == "/dev/stderr";
}

}  // namespace sandboxkit::gate
