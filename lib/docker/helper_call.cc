#include "docker/helper_call.h"

#include "wire/http.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMaxReplyBytes = 4 << 20;

Error gone(const char* what) { return Error{ErrorCode::kUnavailable, what, "guest_unavailable"}; }

std::string request_text(const HelperRequest& request) {
  const std::string end = "Host: helper\r\nConnection: close\r\n";
  if (request.json_body.empty()) {
    return "GET " + request.path + " HTTP/1.1\r\n" + end + "\r\n";
  }
  return request.method + " " + request.path + " HTTP/1.1\r\n" + end +
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(request.json_body.size()) + "\r\n\r\n" + request.json_body;
}

int ms_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max(left, milliseconds{0}).count());
}

/// The text may be larger than the socket's buffer; a helper that does not read is not waited for.
Status send_all(int fd, std::string_view text, steady_clock::time_point deadline) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    pollfd wait{fd, POLLOUT, 0};
    if (sent < 0 && errno == EAGAIN && poll(&wait, 1, ms_until(deadline)) == 1) {
      continue;
    }
    if (sent >= 0 || errno != EINTR) {
      return gone("the helper takes no request");
    }
  }
  return {};
}

/// An answer that comes in pieces.
class Reply {
 public:
  /// True once it is whole.
  Result<bool> take(std::string_view bytes) {
    unread_ += bytes;
    if (unread_.size() + reply_.body.size() > kMaxReplyBytes) {
      return Error{ErrorCode::kTooLarge, "the helper's answer is too large"};
    }
    if (!decoder_) {
      const std::size_t end = wire::find_head_end(unread_);
      if (end == 0) {
        return false;
      }
      const auto head = wire::parse_response_head(std::string_view(unread_).substr(0, end), "GET");
      if (!head) {
        return head.error();
      }
      reply_.status = head->status;
      reply_.headers = head->headers;
      decoder_.emplace(head->body);
      unread_.erase(0, end);
    }
    std::string_view input = unread_;
    if (Status fed = decoder_->feed(input, reply_.body); !fed) {
      return fed.error();
    }
    unread_.erase(0, unread_.size() - input.size());
    return decoder_->done();
  }

  HelperReply result() && { return std::move(reply_); }

 private:
  std::string unread_;
  std::optional<wire::BodyDecoder> decoder_;
  HelperReply reply_;
};

}  // namespace

Result<HelperReply> call_helper(io::Fd connection, const HelperRequest& request,
                                milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  if (Status sent = send_all(connection.get(), request_text(request), deadline); !sent) {
    return sent.error();
  }
  Reply reply;
  std::array<char, 16 * 1024> buffer{};
  while (true) {
    const int left = ms_until(deadline);
    pollfd wait{connection.get(), POLLIN, 0};
    const int ready = left > 0 ? poll(&wait, 1, left) : 0;
    if (ready == 0) {
      return Error{ErrorCode::kDeadlineExceeded, "the helper did not answer in time"};
    }
    const ssize_t got = ready > 0 ? recv(connection.get(), buffer.data(), buffer.size(), 0) : -1;
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return gone("the helper ended the connection before its answer was whole");
    }
    const auto whole = reply.take(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    if (!whole) {
      return whole.error();
    }
    if (*whole) {
      return std::move(reply).result();
    }
  }
}

}  // namespace sandboxkit::docker
