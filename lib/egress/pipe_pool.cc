#include "egress/pipe_pool.h"

#include <array>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

constexpr std::size_t kSmallestPipe = 64 * 1024;

}  // namespace

std::optional<Pipe> PipePool::take() {
  if (used_ >= kMaxPipes) {
    return std::nullopt;
  }
  if (!spare_.empty()) {
    Pipe pipe = std::move(spare_.back());
    spare_.pop_back();
    ++used_;
    return pipe;
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return std::nullopt;
  }
  Pipe pipe{io::Fd(ends[0]), io::Fd(ends[1])};
  // One user's share of pipe memory may be used up. A pipe of a page or two would be slower than
  // copying.
  if (::fcntl(pipe.write.get(), F_SETPIPE_SZ, static_cast<int>(kPipeBytes)) < 0 &&
      ::fcntl(pipe.write.get(), F_GETPIPE_SZ) < static_cast<int>(kSmallestPipe)) {
    return std::nullopt;
  }
  ++used_;
  return pipe;
}

void PipePool::give_back(Pipe pipe) {
  --used_;
  if (spare_.size() < kMaxSpare) {
    spare_.push_back(std::move(pipe));
  }
}

void PipePool::drop(Pipe pipe) {
  --used_;
  pipe.read.reset();
  pipe.write.reset();
}

}  // namespace sandboxkit::egress
