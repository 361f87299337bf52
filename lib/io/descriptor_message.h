#pragma once

#include "io/fd.h"

#include <array>
#include <cstddef>

#include <sys/types.h>

namespace sandboxkit::io {

/// More than one, so that a message with two descriptors is seen and not silently cut.
inline constexpr std::size_t kDescriptorsTaken = 4;

/// One byte of a stream socket between processes, with the descriptors that came with it. They are
/// closed with the message unless somebody takes them.
struct DescriptorMessage {
  ssize_t got = -1;  ///< What recvmsg returned; below 0: errno says why.
  char byte = 0;
  std::array<Fd, kDescriptorsTaken> descriptors{};
  std::size_t count = 0;
  bool truncated = false;

  /// Whether it is this byte with exactly that many descriptors.
  bool is(char wanted, std::size_t descriptors_wanted) const {
    return got == 1 && byte == wanted && count == descriptors_wanted && !truncated;
  }
};

/// Takes the next byte without waiting; descriptors are close-on-exec.
DescriptorMessage receive_message(int socket);
/// Sends the byte, with the descriptor unless it is -1, without waiting. Returns an errno, or 0.
int send_message(int socket, char byte, int descriptor);

}  // namespace sandboxkit::io
