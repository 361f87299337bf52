#pragma once

#include "sandboxkit/result.h"

#include "cli/files.h"

#include <string>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::cli {

/// A program of this machine with one end of a pipe: its input or its output.
class Child {
 public:
  enum class Pipe : std::uint8_t { kToInput, kFromOutput };
  /// Errors: kUnavailable when it cannot be started.
  static Result<Child> start(const std::vector<std::string>& argv, Pipe pipe);

  int fd() const { return pipe_.get(); }
  /// Closes our end and waits for its end. Errors: kInternal when it did not end with 0.
  Status finish();

 private:
  Child(std::string name, Descriptor pipe, pid_t pid)
      : name_(std::move(name)), pipe_(std::move(pipe)), pid_(pid) {}
  std::string name_;
  Descriptor pipe_;
  pid_t pid_;
};

}  // namespace sandboxkit::cli
