#pragma once

#include "io/fd.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace sandboxkit::egress {

/// A pipe of the kernel, through which bytes pass from one socket to another without being copied
/// into our memory.
struct Pipe {
  io::Fd read;
  io::Fd write;
};

/// Pipes for tunnels that carry much. Bounded, so that they neither use up the descriptors that new
/// connections need nor the share of pipe memory that the kernel gives to one user; who gets none
/// copies, which is slower and nothing else.
/// Thread-safety: the loop's thread.
class PipePool {
 public:
  /// Bytes that one pipe holds at most: what a reader that does not read can pin.
  static constexpr std::size_t kPipeBytes = 256 * 1024;
  static constexpr std::size_t kMaxPipes = 64;
  static constexpr std::size_t kMaxSpare = 4;

  /// nullopt when there is none to be had.
  std::optional<Pipe> take();
  /// An empty pipe comes back for others to use; one that holds bytes must be dropped instead.
  void give_back(Pipe pipe);
  void drop(Pipe pipe);
  std::size_t used() const { return used_; }

 private:
  std::vector<Pipe> spare_;
  std::size_t used_ = 0;
};

}  // namespace sandboxkit::egress
