#pragma once

#include "sandboxkit/file_eyes.h"

#include "io/fd.h"

#include <string>
#include <vector>

struct stat;

namespace sandboxkit::eyes {

FileFacts facts_of(const struct stat& status);

/// Opens one name in a directory as a place, a link as itself. Negative: errno.
int open_step(int directory, const char* name);

/// One look at a path, step by step, with every directory on the way held open: what was seen of
/// one step cannot be swapped before the next.
class PathWalk {
 public:
  static constexpr std::size_t kMaxDirectories = 256;
  static constexpr int kMaxLinks = 40;

  explicit PathWalk(LastLink last) : last_(last) {}

  /// `path` is absolute.
  Result<SeenPath> follow(const std::string& path);

  /// After a `follow` that succeeded: where it ended, the object itself or else the nearest
  /// directory.
  io::Fd take_last() { return std::move(levels_.back().fd); }

 private:
  struct Level {
    io::Fd fd;
    std::string name;
    FileFacts facts;
  };

  void push_parts(std::string_view path);
  Status restart();
  Status step(const std::string& name);
  Status enter(io::Fd fd, const std::string& name, const FileFacts& facts);
  Status follow_link(int fd, const std::string& name);
  Status note_missing(const std::string& name);
  std::string place() const;

  LastLink last_;
  std::vector<Level> levels_;
  /// What is left, the next at the end; and how much of that is the asked path's own.
  std::vector<std::string> left_;
  std::size_t asked_left_ = 0;
  int links_ = 0;
  bool is_missing_ = false;
  std::string missing_;
  SeenPath seen_;
};

}  // namespace sandboxkit::eyes
