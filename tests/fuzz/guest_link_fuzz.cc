// The control connection between a host and a helper in a sandbox: each end against any messages.

#include "io/descriptor_message.h"
#include "io/event_loop.h"
#include "io/guest_link.h"
#include "tests/fuzz/fuzz_input.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kMaxMessages = 8;
constexpr std::size_t kMaxDescriptors = 6;

struct Message {
  char byte;
  std::size_t descriptors;
};

/// Half of the bytes are those that mean something, most of them with the descriptors they need.
std::vector<Message> messages_of(fuzz::Input& input) {
  constexpr std::string_view kKnown = "LRCX";
  std::vector<Message> out;
  while (!input.rest().empty() && out.size() < kMaxMessages) {
    const std::uint8_t choice = input.byte();
    const char byte = (choice & 0x80U) != 0 ? static_cast<char>(input.byte()) : kKnown[choice & 3U];
    out.push_back({byte, std::size_t{(choice >> 2U) & 15U} % (kMaxDescriptors + 1)});
  }
  return out;
}

void send(int socket, const Message& message, int descriptor) {
  char byte = message.byte;
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> space{};
  msghdr out{};
  out.msg_iov = &piece;
  out.msg_iovlen = 1;
  if (message.descriptors > 0) {
    out.msg_control = space.data();
    out.msg_controllen = CMSG_SPACE(sizeof(int) * message.descriptors);
    cmsghdr* header = CMSG_FIRSTHDR(&out);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * message.descriptors);
    for (std::size_t i = 0; i < message.descriptors; ++i) {
      std::memcpy(CMSG_DATA(header) + i * sizeof(int), &descriptor, sizeof descriptor);
    }
  }
  ::sendmsg(socket, &out, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int lowest_free_descriptor() {
  const io::Fd fd(::dup(STDERR_FILENO));
  return fd.get();
}

/// Until the other end has read all that was sent through `socket`, or is gone; then once more.
void run_until_read(io::EventLoop& loop, int socket) {
  constexpr int kMaxRounds = 1000;
  int unread = 1;
  for (int round = 0; round < kMaxRounds && unread > 0; ++round) {
    if (::ioctl(socket, SIOCOUTQ, &unread) != 0) {
      unread = 0;
    }
    loop.run_after(io::EventLoop::Duration{1}, [&loop] { loop.stop(); });
    loop.run();
  }
}

/// What the host may believe of a helper that said this, expecting a listener or not.
struct Host {
  bool ready = false;
  std::size_t taken = 0;
};
Host believe(const std::vector<Message>& messages, bool expects) {
  Host host;
  for (const Message& message : messages) {
    if (message.byte == 'L' && message.descriptors == 1 && expects && host.taken == 0) {
      host.taken = 1;
    } else if (message.byte == 'R' && message.descriptors == 0 && !host.ready &&
               (!expects || host.taken == 1)) {
      host.ready = true;
    } else {
      host.ready = false;  // Anything else ends the link.
      return host;
    }
  }
  return host;
}

void check_host(const std::vector<Message>& messages, bool expects) {
  const std::string path = "/tmp/sandboxkit-fuzz-" + std::to_string(::getpid()) + ".sock";
  io::EventLoop loop;
  std::size_t taken = 0;
  const auto take = [&](const io::Fd& fd) {
    ++taken;
    return static_cast<bool>(fd);
  };
  auto link = io::GuestLink::listen(
      loop, path, [] { return ::getpid(); },
      expects ? io::GuestLink::ListenerTaker(take) : io::GuestLink::ListenerTaker());
  PROMISE(link.has_value(), "a folder for the socket is there");
  const io::Fd helper(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  PROMISE(::connect(helper.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
          "the host listens");
  for (const Message& message : messages) {
    send(helper.get(), message, STDERR_FILENO);
  }
  run_until_read(loop, helper.get());
  const Host expected = believe(messages, expects);
  PROMISE(taken == expected.taken, "a listener is taken once, in time, and alone");
  PROMISE((*link)->ready() == expected.ready, "a helper is ready when it said so and nothing else");
  PROMISE((*link)->connect().has_value() == expected.ready, "and gets connections only then");
}

void check_helper(const std::vector<Message>& messages) {
  io::EventLoop loop;
  std::array<int, 2> ends{};
  PROMISE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "a pair");
  const io::Fd host(ends[0]);
  std::size_t connections = 0;
  bool lost = false;
  const auto dialer = io::GuestDialer::adopt(
      loop, io::Fd(ends[1]), [&](const io::Fd& fd) { connections += fd ? 1 : 0; },
      [&] { lost = true; });
  for (const Message& message : messages) {
    send(host.get(), message, STDERR_FILENO);
  }
  run_until_read(loop, host.get());
  std::size_t expected = 0;
  while (expected < messages.size() && messages[expected].byte == 'C' &&
         messages[expected].descriptors == 1) {
    ++expected;
  }
  PROMISE(connections == expected, "a connection comes with its one descriptor");
  PROMISE(lost == (expected < messages.size()), "and anything else ends the helper's link");
  dialer->stop();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t side = input.byte();
  const auto messages = messages_of(input);
  const int before = lowest_free_descriptor();
  if (side % 3 == 0) {
    check_helper(messages);
  } else {
    check_host(messages, side % 3 == 1);
  }
  PROMISE(lowest_free_descriptor() == before, "no descriptor stays open");
  return 0;
}
