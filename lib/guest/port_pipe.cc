#include "guest/port_pipe.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/reply.h"

namespace sandboxkit::guest {
namespace {

struct PortTarget {
  std::string address;
  std::uint16_t port;
};

Result<PortTarget> read_target(std::string_view target) {
  constexpr std::uint64_t kMaxPort = 65'535;
  const auto colon = target.rfind(':');
  const auto port = colon == std::string_view::npos
                        ? std::nullopt
                        : parse_decimal(target.substr(colon + 1), kMaxPort);
  if (!port || *port == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "CONNECT needs host:port with a port from 1 to 65535"};
  }
  const std::string_view host = target.substr(0, colon);
  if (host != "127.0.0.1" && host != "[::1]") {
    return Error{ErrorCode::kPermissionDenied,
                 "only 127.0.0.1 and [::1] can be reached through the guest", "not_loopback"};
  }
  return PortTarget{host == "[::1]" ? "::1" : "127.0.0.1", static_cast<std::uint16_t>(*port)};
}

void refuse_port(io::HttpExchange& exchange, std::uint16_t port) {
  constexpr int kBadGateway = 502;
  io::respond_json(
      exchange, kBadGateway,
      json::dump(json::Object{
          {"code", kBadGateway},
          {"error", "port_closed"},
          {"message", "nothing listens on port " + std::to_string(port) + " of the sandbox"},
          {"port", int{port}}}));
}

}  // namespace

void serve_connect(io::EventLoop& loop, const std::shared_ptr<io::HttpExchange>& exchange) {
  const auto target = read_target(exchange->request().target);
  if (!target) {
    refuse(*exchange, target.error());
    return;
  }
  io::connect_tcp(loop, target->address, target->port, kPortConnectTimeout,
                  [&loop, port = target->port, exchange](Result<io::Fd> connected) {
                    if (!connected) {
                      refuse_port(*exchange, port);
                      return;
                    }
                    wire::ResponseHead head;
                    std::string early;
                    const auto client = exchange->upgrade(head, early);
                    if (client == nullptr) {
                      return;  // gone meanwhile
                    }
                    const auto server = io::Socket::adopt(loop, std::move(*connected));
                    io::pipe_sockets(client, server, std::move(early), [] {});
                  });
}

}  // namespace sandboxkit::guest
