#pragma once

#include "sandboxkit/file_eyes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::gate_test {

/// A file system of a few names, with links, hard links and other mounts of the same directory.
class FakeEyes final : public FileEyes {
 public:
  FakeEyes() { directory("/"); }

  FileFacts& directory(const std::string& path) { return add(path, FileType::kDirectory); }
  FileFacts& file(const std::string& path) { return add(path, FileType::kFile); }
  void link(const std::string& path, const std::string& target) {
    add(path, FileType::kLink);
    targets_[path] = target;
  }
  /// A second name of a file.
  void hard_link(const std::string& existing, const std::string& path) {
    add(path, FileType::kFile);
    nodes_[path] = nodes_.at(existing);
    for (auto& [name, facts] : nodes_) {
      if (facts.identity == nodes_[path].identity) {
        facts.link_count = 2;
      }
    }
  }
  /// The same directory, mounted in a second place.
  void mount(const std::string& existing, const std::string& path) {
    directory(path);
    nodes_[path] = nodes_.at(existing);
  }
  FileFacts& facts(const std::string& path) { return nodes_.at(path); }
  FileIdentity identity(const std::string& path) const { return nodes_.at(path).identity; }

  /// Looks that fail, and walks that do.
  bool blind = false;
  bool walk_fails = false;
  std::set<std::string> closed{};

  Result<SeenPath> look(const LookAt& at) const override {
    if (blind) {
      return Error{ErrorCode::kUnavailable, "it changed while we looked"};
    }
    SeenPath seen;
    std::vector<std::string> left =
        parts(at.path.starts_with('/') ? at.path : at.cwd + "/" + at.path);
    std::ranges::reverse(left);
    std::string here;
    int links = 0;
    // What is left when the asked path's last component is reached, and no link's text.
    std::size_t asked_left = 1;
    while (!left.empty()) {
      const bool is_last = left.size() == 1;
      const bool is_asked_last = left.size() == asked_left && is_last && !seen.asked_link;
      const std::string part = left.back();
      left.pop_back();
      if (part == "..") {
        here = here.substr(0, here.rfind('/') == std::string::npos ? 0 : here.rfind('/'));
        continue;
      }
      const std::string next = here + "/" + part;
      const auto found = nodes_.find(next);
      if (found == nodes_.end()) {
        const auto above = nodes_.find(here);
        if (above != nodes_.end() && above->second.type != FileType::kDirectory) {
          return Error{ErrorCode::kInvalidArgument, "not a directory"};
        }
        here = next;
        for (; !left.empty(); left.pop_back()) {
          if (left.back() == "..") {
            return Error{ErrorCode::kNotFound, "a missing directory cannot be left"};
          }
          here += "/" + left.back();
        }
        break;
      }
      if (found->second.type == FileType::kLink && !(is_last && at.last == LastLink::kKeep)) {
        if (++links > 40) {
          return Error{ErrorCode::kInvalidArgument, "too many links"};
        }
        if (is_asked_last) {
          seen.asked_link = next;
        }
        seen.links.push_back(next);
        const std::string& target = targets_.at(next);
        auto more = parts(target);
        for (auto it = more.rbegin(); it != more.rend(); ++it) {
          left.push_back(*it);
        }
        if (target.starts_with('/')) {
          here.clear();
        }
        continue;
      }
      here = next;
    }
    seen.canonical = here.empty() ? "/" : here;
    if (const auto found = nodes_.find(seen.canonical); found != nodes_.end()) {
      seen.file = found->second;
    }
    for (std::string above = seen.canonical; above.size() > 1;) {
      above = above.rfind('/') == 0 ? "/" : above.substr(0, above.rfind('/'));
      if (const auto found = nodes_.find(above); found != nodes_.end()) {
        seen.above.insert(seen.above.begin(), found->second.identity);
      }
    }
    return seen;
  }

  Status walk(const WalkFrom& from, const WalkVisitor& visit) const override {
    if (blind || walk_fails || (closed.contains(from.directory) && !from.skip_unreadable)) {
      return Error{ErrorCode::kPermissionDenied, "it cannot be read"};
    }
    std::set<std::string> passed;
    for (const auto& [path, facts] : nodes_) {
      const std::string prefix = from.directory == "/" ? "/" : from.directory + "/";
      const bool is_past = std::ranges::any_of(
          passed, [&path = path](const std::string& p) { return path.starts_with(p + "/"); });
      if (!path.starts_with(prefix) || path == "/" || is_past) {
        continue;
      }
      switch (visit(path, facts)) {
        case WalkStep::kInto:
          break;
        case WalkStep::kPast:
          passed.insert(path);
          break;
        case WalkStep::kStop:
          return {};
      }
    }
    return {};
  }

 private:
  static std::vector<std::string> parts(std::string_view path) {
    std::vector<std::string> found;
    std::string current;
    for (const char c : std::string(path) + "/") {
      if (c != '/') {
        current.push_back(c);
      } else if (!current.empty()) {
        if (current != ".") {
          found.push_back(current);
        }
        current.clear();
      }
    }
    return found;
  }

  FileFacts& add(const std::string& path, FileType type) {
    if (path != "/") {
      const std::string above = path.rfind('/') == 0 ? "/" : path.substr(0, path.rfind('/'));
      if (!nodes_.contains(above)) {
        directory(above);
      }
    }
    FileFacts& facts = nodes_[path];
    facts = FileFacts{.identity = {1, ++next_inode_}, .type = type, .owner = 1000, .mode = 0644};
    return facts;
  }

  std::map<std::string, FileFacts> nodes_{};
  std::map<std::string, std::string> targets_{};
  std::uint64_t next_inode_ = 100;
};

}  // namespace sandboxkit::gate_test
