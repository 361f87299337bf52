#include "work/post.h"

#include "base/text.h"
#include "io/http_client.h"
#include "io/socket.h"
#include "json/value.h"

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <netdb.h>
#include <sys/socket.h>

namespace sandboxkit::work {
namespace {

constexpr std::size_t kMaxReplyBytes = 1 << 20;
constexpr std::string_view kScheme = "http://";

struct Authority {
  std::string host;
  std::uint16_t port = 80;
  std::string text;
};

Result<Authority> authority_of(const std::string& url) {
  const Error bad{ErrorCode::kInvalidArgument,
                  "the controller's url " + quoted(url) + " is not `http://host[:port]`", "",
                  "controller_url"};
  std::string_view rest = url;
  if (!rest.starts_with(kScheme)) {
    return bad;
  }
  rest.remove_prefix(kScheme.size());
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  Authority out;
  out.text = rest;
  const bool bracketed = rest.starts_with('[');
  const auto host_end = bracketed ? rest.find(']') : rest.find(':');
  out.host = bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end);
  const auto after = host_end == std::string_view::npos ? rest.size() : host_end + bracketed;
  if (after < rest.size()) {
    const auto port =
        rest[after] == ':' ? parse_decimal(rest.substr(after + 1), 65535) : std::nullopt;
    if (!port) {
      return bad;
    }
    out.port = static_cast<std::uint16_t>(*port);
  }
  const bool plain = out.host.find_first_of("/?#@ \t\r\n[]") == std::string::npos;
  return plain && !out.host.empty() && out.port > 0 ? Result<Authority>(out)
                                                    : Result<Authority>(bad);
}

/// The first address of a name, as text.
Result<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); problem != 0) {
    return Error{ErrorCode::kUnavailable,
                 "no address for " + quoted(host) + ": " + ::gai_strerror(problem)};
  }
  std::array<char, NI_MAXHOST> text{};
  const int named = ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(),
                                  nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(found);
  if (named != 0) {
    return Error{ErrorCode::kUnavailable, "no address for " + quoted(host)};
  }
  return std::string(text.data());
}

/// One exchange in a loop of its own.
class Call {
 public:
  Result<PostReply> run(const std::string& address, std::uint16_t port,
                        const wire::RequestHead& head, const std::string& body,
                        std::chrono::milliseconds timeout) {
    loop_.run_after(timeout, [this] {
      finish(Error{ErrorCode::kDeadlineExceeded, "the controller does not answer in time"});
    });
    io::connect_tcp(loop_, address, port, timeout, [&](Result<io::Fd> connection) {
      connection ? send(std::move(*connection), head, body) : finish(connection.error());
    });
    loop_.run();
    return std::move(*result_);
  }

 private:
  void send(io::Fd connection, const wire::RequestHead& head, const std::string& body) {
    io::HttpClientCall::Handlers handlers;
    handlers.on_head = [this](const wire::ResponseHead& answer) { reply_.status = answer.status; };
    handlers.on_data = [this](std::string_view bytes) {
      reply_.body += bytes;
      if (reply_.body.size() > kMaxReplyBytes) {
        finish(Error{ErrorCode::kTooLarge, "the controller's answer is too large"});
      }
    };
    handlers.on_end = [this](const io::Fd&) { finish(std::move(reply_)); };
    handlers.on_error = [this](const Error& error) { finish(error); };
    call_ = io::HttpClientCall::start(loop_, std::move(connection), head, std::move(handlers));
    call_->write_body(body);
  }

  void finish(Result<PostReply> result) {
    if (result_) {
      return;
    }
    result_ = std::move(result);
    if (call_) {
      call_->cancel();
    }
    loop_.stop();
  }

  io::EventLoop loop_;
  std::shared_ptr<io::HttpClientCall> call_;
  PostReply reply_;
  std::optional<Result<PostReply>> result_;
};

ErrorCode code_of_status(int status) {
  switch (status) {
    case 400:
      return ErrorCode::kInvalidArgument;
    case 401:
      return ErrorCode::kUnauthenticated;
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kConflict;
    default:
      return ErrorCode::kUnavailable;
  }
}

}  // namespace

Result<PostReply> post(const std::string& url, const std::string& path,
                       const std::string& credential, const std::string& body,
                       std::chrono::milliseconds timeout) {
  const auto authority = authority_of(url);
  if (!authority) {
    return authority.error();
  }
  const auto address = resolve(authority->host);
  if (!address) {
    return address.error();
  }
  wire::RequestHead head;
  head.method = "POST";
  head.target = path;
  head.headers.add("Host", authority->text);
  head.headers.add("Authorization", "Bearer " + credential);
  head.headers.add("Content-Type", "application/json");
  head.headers.add("Content-Length", std::to_string(body.size()));
  head.headers.add("Connection", "close");
  return Call().run(*address, authority->port, head, body, timeout);
}

Result<std::string> body_or_error(const PostReply& reply) {
  if (reply.status / 100 == 2) {
    return reply.body;
  }
  Error error{code_of_status(reply.status),
              "the controller answered " + std::to_string(reply.status)};
  if (const auto body = json::parse(reply.body)) {
    error.message = body->text("message", error.message);
    error.reason = body->text("error");
  }
  return error;
}

}  // namespace sandboxkit::work
