#include "io/descriptor_message.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace sandboxkit::io {

DescriptorMessage receive_message(int socket) {
  DescriptorMessage out;
  iovec piece{&out.byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsTaken)> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  out.got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (out.got < 0) {
    return out;
  }
  out.truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t here = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here && out.count < out.descriptors.size(); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(h) + i * sizeof(int), sizeof descriptor);
      out.descriptors[out.count++] = Fd(descriptor);
    }
  }
  return out;
}

int send_message(int socket, char byte, int descriptor) {
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : errno;
}

}  // namespace sandboxkit::io
