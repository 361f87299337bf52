#include "egress/dns_refuser.h"

#include "base/text.h"
#include "io/fd.h"
#include "io/socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace sandboxkit::egress {
namespace {

constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kMaxQueryBytes = 1232;
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxLabelBytes = 63;
constexpr int kQueriesAtOnce = 64;
constexpr unsigned char kRefused = 5;

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// The end of the question that begins after the header; 0 when there is none.
std::size_t question_end(std::string_view query) {
  std::size_t at = kHeaderBytes;
  while (at < query.size() && query[at] != 0) {
    const std::size_t label = byte_at(query, at);
    at += 1 + label;
    if (label > kMaxLabelBytes || at - kHeaderBytes >= kMaxNameBytes) {
      return 0;
    }
  }
  constexpr std::size_t kRootTypeAndClass = 5;
  return at + kRootTypeAndClass <= query.size() ? at + kRootTypeAndClass : 0;
}

class DnsRefuserImpl final : public DnsRefuser {
 public:
  DnsRefuserImpl(io::EventLoop& loop, io::Fd fd) : loop_(loop), fd_(std::move(fd)) {
    loop_.add(fd_.get(), EPOLLIN, [this](std::uint32_t) { serve(); });
  }
  ~DnsRefuserImpl() override { loop_.remove(fd_.get()); }

  std::uint16_t port() const override { return io::local_port(fd_.get()).value_or(0); }
  std::uint64_t refused() const override { return refused_; }

 private:
  void serve() {
    std::array<char, kMaxQueryBytes + 1> buffer;
    for (int i = 0; i < kQueriesAtOnce; ++i) {
      sockaddr_storage peer{};
      socklen_t peer_size = sizeof peer;
      auto* peer_address = reinterpret_cast<sockaddr*>(&peer);
      const ssize_t got =
          ::recvfrom(fd_.get(), buffer.data(), buffer.size(), 0, peer_address, &peer_size);
      if (got < 0) {
        return;
      }
      const auto answer = refuse_query({buffer.data(), static_cast<std::size_t>(got)});
      if (answer) {
        ++refused_;
        // A full buffer drops the answer, as the network might.
        [[maybe_unused]] const ssize_t sent = ::sendto(fd_.get(), answer->data(), answer->size(),
                                                       MSG_DONTWAIT, peer_address, peer_size);
      }
    }
  }

  io::EventLoop& loop_;
  io::Fd fd_;
  std::uint64_t refused_ = 0;
};

}  // namespace

std::optional<std::string> refuse_query(std::string_view query) {
  if (query.size() < kHeaderBytes || query.size() > kMaxQueryBytes) {
    return std::nullopt;
  }
  // Answering an answer would let two servers talk for ever.
  const bool is_response = (byte_at(query, 2) & 0x80U) != 0;
  const bool one_question = query[4] == 0 && query[5] == 1;
  const bool no_records = query[6] == 0 && query[7] == 0 && query[8] == 0 && query[9] == 0;
  const std::size_t end = question_end(query);
  if (is_response || !one_question || !no_records || end == 0) {
    return std::nullopt;
  }
  std::string answer(query.substr(0, end));
  constexpr unsigned kResponseBit = 0x80;
  constexpr unsigned kOpcodeAndRecursionDesired = 0x79;
  answer[2] = static_cast<char>(kResponseBit | (byte_at(query, 2) & kOpcodeAndRecursionDesired));
  answer[3] = static_cast<char>(kRefused);
  answer[10] = 0;  // no additional records are repeated
  answer[11] = 0;
  return answer;
}

Result<std::unique_ptr<DnsRefuser>> DnsRefuser::start(io::EventLoop& loop,
                                                      const std::string& address,
                                                      std::uint16_t port) {
  sockaddr_storage where{};
  socklen_t size = 0;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&where);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&where);
  if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    size = sizeof *v4;
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    size = sizeof *v6;
  } else {
    return Error{ErrorCode::kInvalidArgument, quoted(address) + " is no address"};
  }
  io::Fd fd(::socket(where.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), size) != 0) {
    return Error{ErrorCode::kUnavailable, "listen for DNS on " + quoted(address) + " port " +
                                              std::to_string(port) + ": " + std::strerror(errno)};
  }
  return std::unique_ptr<DnsRefuser>(std::make_unique<DnsRefuserImpl>(loop, std::move(fd)));
}

}  // namespace sandboxkit::egress
