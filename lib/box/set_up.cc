// What a box's first process and its broker set up alike. Between clone and exec.

#include "box/set_up.h"

#include "box/kernel_calls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <sys/socket.h>

namespace sandboxkit::box {
namespace {

constexpr int kFailedExit = 127;

void write_all_of(const Launch& launch, const char* path, const char* text, std::size_t size) {
  const Handle file(open_place(AT_FDCWD, path, O_WRONLY, 0));
  if (!file || write(file.get(), text, size) != static_cast<ssize_t>(size)) {
    fail_inside(launch, Stage::kUser, errno);
  }
}

}  // namespace

void map_user(const Launch& launch) {
  write_all_of(launch, "/proc/self/setgroups", "deny", 4);
  write_all_of(launch, "/proc/self/uid_map", launch.uid_map.c_str(), launch.uid_map.size());
  write_all_of(launch, "/proc/self/gid_map", launch.gid_map.c_str(), launch.gid_map.size());
}

void take_descriptors(Launch& launch) {
  const auto above = [&](int fd) {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, kAboveAll);
    if (copy < 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
    return copy;
  };
  std::array<int*, 5> ours{&launch.report, &launch.control, &launch.broker, &launch.broker_own,
                           &launch.broker_box};
  for (int* one : ours) {
    *one = *one < 0 ? -1 : above(*one);
  }
  for (Descriptor& one : launch.descriptors) {
    one.ours = above(one.ours);
  }
  for (const Descriptor& one : launch.descriptors) {
    if (dup2(one.ours, one.theirs) < 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
  }
  unsigned next = 0;
  for (const Descriptor& one : launch.descriptors) {
    const auto kept = static_cast<unsigned>(one.theirs);
    if (kept > next && close_range(next, kept - 1) != 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
    next = kept + 1;
  }
  std::sort(ours.begin(), ours.end(), [](const int* a, const int* b) { return *a < *b; });
  for (const int* one : ours) {
    const auto kept = static_cast<unsigned>(*one);
    if (*one < 0) {
      continue;
    }
    if (kept > next && close_range(next, kept - 1) != 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
    next = kept + 1;
  }
  if (close_range(next, ~0U) != 0) {
    fail_inside(launch, Stage::kDescriptors, errno);
  }
}

bool send_descriptor(int socket, char byte, int descriptor) {
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_descriptor(int socket, char byte) {
  char got = 0;
  iovec piece{&got, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || got != byte) {
    return -1;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return -1;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    sigaction(signal, &standard, nullptr);
  }
}

void fail_inside(const Launch& launch, Stage stage, int error_number, std::size_t index) {
  const Failure failure{stage, error_number, static_cast<std::uint32_t>(index)};
  // A pipe takes so little at once or not at all; without a reader there is nobody to tell.
  if (write(launch.report, &failure, sizeof failure) != sizeof failure) {
    _exit(kFailedExit);
  }
  _exit(kFailedExit);
}

}  // namespace sandboxkit::box
