#pragma once

#include "audit/line.h"
#include "io/fd.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sandboxkit::audit {

/// One line with the chain it came from.
struct FoundLine {
  std::string chain{};
  ParsedLine line{};
};

/// Which lines; an empty member takes all.
struct Wanted {
  std::string session{};
  std::string kind{};
  std::string decision{};
  bool takes(const ParsedLine& line) const;
};

/// Reads a log's folder, and what was added to it since. It checks nothing: `verify_folder` does.
///
/// Thread-safety: one thread at a time. Blocking: on the disk.
class Reader {
 public:
  static Result<Reader> open(const std::string& path);

  /// Calls `take` with each line that was not read yet, chain by chain.
  Status read_new(const std::function<void(FoundLine)>& take);
  /// The newest of all lines that were not read yet, in the order of their time.
  Result<std::vector<FoundLine>> newest(const Wanted& wanted, std::size_t limit);
  /// Waits until something in the folder changed.
  Status wait();
  /// Lines so far that are none of the log's.
  std::uint64_t unreadable() const { return unreadable_; }

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::string partial{};
  };
  Reader(io::Fd folder, io::Fd changes)
      : folder_(std::move(folder)), changes_(std::move(changes)) {}
  Status read_file(const std::string& chain, const std::string& file,
                   const std::function<void(FoundLine)>& take);

  io::Fd folder_;
  io::Fd changes_;
  std::map<std::string, Place> places_;
  std::uint64_t unreadable_ = 0;
};

}  // namespace sandboxkit::audit
