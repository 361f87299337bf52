#include "base/text.h"
#include "io/http_client.h"
#include "json/value.h"
#include "net/tunnel.h"

#include <optional>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace sandboxkit::net {

namespace {

/// Longest error body that is read.
constexpr std::size_t kMaxErrorBytes = 64 * 1024;
constexpr std::uint16_t kHttpPort = 80;

struct Place {
  std::string host;  ///< Without brackets.
  std::uint16_t port = kHttpPort;
  std::string authority;
};

Error bad_url(const std::string& url) {
  return Error{ErrorCode::kInvalidArgument, "the controller's url " + sandboxkit::quoted(url) +
                                                " must look like `http://host:port`"};
}

Result<Place> place_of(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!std::string_view(url).starts_with(kScheme)) {
    return bad_url(url);
  }
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  Place place;
  place.authority = rest;
  const bool bracketed = rest.starts_with('[');
  const auto host_end = bracketed ? rest.find(']') : rest.find(':');
  if (bracketed && host_end == std::string_view::npos) {
    return bad_url(url);
  }
  place.host = bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end);
  std::string_view port;
  if (host_end != std::string_view::npos) {
    port = rest.substr(bracketed ? host_end + 1 : host_end);
  }
  if (!port.empty()) {
    const auto number = port.starts_with(':') ? parse_decimal(port.substr(1), 65535) : std::nullopt;
    if (!number || *number == 0) {
      return bad_url(url);
    }
    place.port = static_cast<std::uint16_t>(*number);
  }
  const bool plain = place.host.find_first_of("/?#@[] \t\r\n") == std::string::npos;
  if (place.host.empty() || !plain || has_control_characters(place.host)) {
    return bad_url(url);
  }
  return place;
}

/// The name's first address as text. Blocking.
Result<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (result != 0) {
    return Error{ErrorCode::kUnavailable, "the controller's name " + sandboxkit::quoted(host) +
                                              " has no address: " + ::gai_strerror(result)};
  }
  char text[NI_MAXHOST] = {};
  const int named = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0,
                                  NI_NUMERICHOST);
  ::freeaddrinfo(found);
  if (named != 0) {
    return Error{ErrorCode::kUnavailable, ::gai_strerror(named)};
  }
  return std::string(text);
}

ErrorCode code_of_status(int status) {
  switch (status) {
    case 401:
      return ErrorCode::kUnauthenticated;
    case 403:
      return ErrorCode::kPermissionDenied;
    default:
      return ErrorCode::kUnavailable;
  }
}

/// One dial. The pieces that are under way own it, and `finish` drops them.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  using Done = std::function<void(Result<std::shared_ptr<io::Socket>>, std::string)>;

  Dial(io::EventLoop& loop, TunnelDial order, Done on_done)
      : loop_(loop), order_(std::move(order)), on_done_(std::move(on_done)) {}

  void start() {
    auto place = place_of(order_.url);
    if (!place) {
      loop_.post([self = shared_from_this(), error = place.error()] { self->finish(error); });
      return;
    }
    place_ = std::move(*place);
    timer_ = loop_.run_after(order_.timeout, [self = shared_from_this()] {
      self->finish(Error{ErrorCode::kUnavailable, "the controller does not answer in time"});
    });
    if (is_numeric(place_.host)) {
      connect(place_.host);
    } else {
      look_up();
    }
  }

 private:
  static bool is_numeric(const std::string& host) {
    return host.find(':') != std::string::npos ||
           host.find_first_not_of("0123456789.") == std::string::npos;
  }

  /// The system's resolver blocks, so it gets a thread of its own. It comes back to the loop, which
  /// must still be there: a program that dials by name keeps its loop for its lifetime.
  void look_up() {
    std::thread([self = shared_from_this(), host = place_.host]() mutable {
      auto address = resolve(host);
      auto& loop = self->loop_;
      loop.post([self = std::move(self), address = std::move(address)] {
        if (address) {
          self->connect(*address);
        } else {
          self->finish(address.error());
        }
      });
    }).detach();
  }

  void connect(const std::string& address) {
    if (!on_done_) {
      return;
    }
    io::connect_tcp(loop_, address, place_.port, order_.timeout,
                    [self = shared_from_this()](Result<io::Fd> connection) {
                      if (!connection) {
                        self->finish(connection.error());
                      } else if (self->on_done_) {
                        self->ask(std::move(*connection));
                      }
                    });
  }

  void ask(io::Fd connection) {
    wire::RequestHead head{.method = "GET", .target = "/v1/worker/tunnel"};
    head.headers.add("Host", place_.authority);
    head.headers.add("Authorization", "Bearer " + order_.credential);
    head.headers.add("Connection", "Upgrade");
    head.headers.add("Upgrade", kTunnelProtocol);
    const auto self = shared_from_this();
    call_ = io::HttpClientCall::start(
        loop_, std::move(connection), head,
        {.on_head = [self](const wire::ResponseHead& answer) { self->on_head(answer); },
         .on_data =
             [self](std::string_view bytes) {
               if (self->body_.size() + bytes.size() <= kMaxErrorBytes) {
                 self->body_.append(bytes);
               }
             },
         .on_end = [self](io::Fd) { self->finish(self->refusal()); },
         .on_error = [self](const Error& error) { self->finish(error); }});
  }

  void on_head(const wire::ResponseHead& answer) {
    status_ = answer.status;
    if (status_ != 101) {
      return;
    }
    if (!answer.headers.has_token("Upgrade", kTunnelProtocol)) {
      finish(Error{ErrorCode::kUnavailable, "the controller speaks another tunnel protocol"});
      return;
    }
    std::string early;
    auto socket = call_->take_socket(early);
    call_ = nullptr;
    finish(std::move(socket), std::move(early));
  }

  Error refusal() const {
    Error error{code_of_status(status_),
                "the controller answered " + std::to_string(status_) + " to the tunnel"};
    if (const auto body = json::parse(body_)) {
      error.message = body->text("message", error.message);
      error.reason = body->text("error");
    }
    return error;
  }

  void finish(Result<std::shared_ptr<io::Socket>> result, std::string early = {}) {
    const auto done = std::exchange(on_done_, nullptr);
    if (!done) {
      return;
    }
    loop_.cancel(timer_);
    if (call_) {
      std::exchange(call_, nullptr)->cancel();
    }
    done(std::move(result), std::move(early));
  }

  io::EventLoop& loop_;
  const TunnelDial order_;
  Done on_done_;
  Place place_;
  io::EventLoop::TimerId timer_ = 0;
  std::shared_ptr<io::HttpClientCall> call_;
  std::string body_;
  int status_ = 0;
};

}  // namespace

void dial_tunnel(
    io::EventLoop& loop, const TunnelDial& dial,
    std::function<void(Result<std::shared_ptr<io::Socket>>, std::string early)> on_done) {
  std::make_shared<Dial>(loop, dial, std::move(on_done))->start();
}

}  // namespace sandboxkit::net
