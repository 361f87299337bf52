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
  return "POST " + request.path + " HTTP/1.1\r\n" + end +
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(request.json_body.size()) + "\r\n\r\n" + request.json_body;
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

  EngineReply result() && { return std::move(reply_); }

 private:
  std::string unread_;
  std::optional<wire::BodyDecoder> decoder_;
  EngineReply reply_;
};

}  // namespace

Result<EngineReply> call_helper(io::Fd connection, const HelperRequest& request,
                                milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const std::string text = request_text(request);
  // Small enough for the socket's buffer: the send does not wait.
  if (send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(text.size())) {
    return gone("the helper takes no request");
  }
  Reply reply;
  std::array<char, 16 * 1024> buffer{};
  while (true) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now()).count();
    pollfd wait{connection.get(), POLLIN, 0};
    const int ready = left > 0 ? poll(&wait, 1, static_cast<int>(left)) : 0;
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
