#pragma once

#include "io/http_client.h"
#include "io/socket.h"
#include "work/guest_proxy.h"

#include <cstdint>
#include <memory>
#include <string>

namespace sandboxkit::work {

/// One request of the tunnel on its way through a guest. Owned by the handlers of both sides.
class ForwardedRequest final : public std::enable_shared_from_this<ForwardedRequest> {
 public:
  ForwardedRequest(GuestProxy& proxy, std::shared_ptr<net::TunnelExchange> exchange,
                   SandboxId sandbox, std::string target);
  void start();

 private:
  void send(bool fresh);
  void send_body();
  wire::RequestHead request_head() const;
  void on_head(const wire::ResponseHead& head);
  void on_data(std::string_view bytes);
  void on_end(io::Fd reusable);
  void on_error(const Error& error);
  void over();

  GuestProxy& proxy_;
  const std::shared_ptr<net::TunnelExchange> exchange_;
  const SandboxId sandbox_;
  const std::string target_;
  std::shared_ptr<io::HttpClientCall> call_;
  bool reused_ = false;
  bool body_begun_ = false;
  bool answer_begun_ = false;
  bool over_ = false;
};

/// One byte pipe to a port in the sandbox, through the guest's CONNECT.
class TcpPipe final : public std::enable_shared_from_this<TcpPipe> {
 public:
  TcpPipe(GuestProxy& proxy, std::shared_ptr<net::TunnelExchange> exchange, SandboxId sandbox,
          std::uint16_t port);
  void start();

 private:
  void on_head(const wire::ResponseHead& head);
  void pipe(std::shared_ptr<io::Socket> socket, const std::string& early);
  void to_tunnel(std::string_view bytes);
  void to_sandbox(std::string_view bytes);
  void refuse(const Error& error);
  void over();

  GuestProxy& proxy_;
  const std::shared_ptr<net::TunnelExchange> exchange_;
  const SandboxId sandbox_;
  const std::uint16_t port_;
  std::shared_ptr<io::HttpClientCall> call_;
  std::shared_ptr<io::Socket> socket_;
  bool over_ = false;
};

}  // namespace sandboxkit::work
