#include "sandboxkit/egress.h"

#include "base/text.h"
#include "policy/egress_name.h"

#include <algorithm>
#include <utility>

namespace sandboxkit {
namespace {

constexpr std::uint64_t kMaxPort = 65535;
constexpr std::uint16_t kHttpPort = 80;

Error bad_target(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_target"};
}

struct Host {
  std::string text;
  std::optional<IpAddress> address;
};

Result<Host> parse_bracketed(std::string_view inside) {
  const auto address = IpAddress::parse(inside);
  if (!address || inside.find(':') == std::string_view::npos) {
    return bad_target(quoted(inside) + " is no IPv6 address in its plain spelling");
  }
  return Host{address->to_string(), address};
}

Result<Host> parse_host(std::string_view text) {
  if (const auto address = IpAddress::parse(text);
      address && !address->is_v6 && text.find(':') == std::string_view::npos) {
    return Host{address->to_string(), address};
  }
  // One final dot means the root and is dropped; a second one is an empty label and refused below.
  if (text.ends_with('.')) {
    text.remove_suffix(1);
  }
  auto name = policy::parse_name(text);
  if (!name) {
    return bad_target(name.error().message);
  }
  return Host{*std::move(name), std::nullopt};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  const auto port = parse_decimal(text, kMaxPort);
  if (!port || *port == 0) {
    return bad_target("port " + quoted(text) + " is not a number from 1 to 65535");
  }
  return static_cast<std::uint16_t>(*port);
}

struct Authority {
  Host host;
  std::optional<std::uint16_t> port;
};

/// `host[:port]` or `[v6][:port]`. A colon without a port is an error.
Result<Authority> parse_authority(std::string_view text) {
  std::string_view host_text;
  std::string_view rest;
  const bool bracketed = text.starts_with('[');
  if (bracketed) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) {
      return bad_target(quoted(text) + " has no closing bracket");
    }
    host_text = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    host_text = text.substr(0, colon);
    rest = text.substr(colon);
  }
  auto host = bracketed ? parse_bracketed(host_text) : parse_host(host_text);
  if (!host) {
    return std::move(host).error();
  }
  if (rest.empty()) {
    return Authority{*std::move(host), std::nullopt};
  }
  if (rest.front() != ':') {
    return bad_target(quoted(text) + " has text after the bracket");
  }
  auto port = parse_port(rest.substr(1));
  if (!port) {
    return std::move(port).error();
  }
  return Authority{*std::move(host), *port};
}

}  // namespace

EgressTarget::EgressTarget(std::string host, std::uint16_t port, EgressScheme scheme,
                           std::optional<IpAddress> address)
    : host_(std::move(host)), port_(port), scheme_(scheme), address_(address) {}

Result<EgressTarget> EgressTarget::from_authority(std::string_view authority) {
  auto parsed = parse_authority(authority);
  if (!parsed) {
    return std::move(parsed).error();
  }
  if (!parsed->port) {
    return bad_target(quoted(authority) + " has no port; write `host:port`");
  }
  return EgressTarget(std::move(parsed->host.text), *parsed->port, EgressScheme::kConnect,
                      parsed->host.address);
}

Result<EgressTarget> EgressTarget::from_http_uri(std::string_view uri) {
  constexpr std::string_view kScheme = "http://";
  if (!equal_ignoring_case(uri.substr(0, kScheme.size()), kScheme)) {
    return bad_target(quoted(uri) + " is not an `http://` URI; use CONNECT for anything else");
  }
  // What browsers and libraries read in different ways is refused wherever it stands.
  const auto odd = [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f ||
           c == '\\' || c == '#';
  };
  if (std::ranges::any_of(uri, odd)) {
    return bad_target(quoted(uri) + " has a character that may not stand in a request's URI");
  }
  uri.remove_prefix(kScheme.size());
  auto parsed = parse_authority(uri.substr(0, uri.find_first_of("/?")));
  if (!parsed) {
    return std::move(parsed).error();
  }
  return EgressTarget(std::move(parsed->host.text), parsed->port.value_or(kHttpPort),
                      EgressScheme::kHttp, parsed->host.address);
}

std::string EgressTarget::to_string() const {
  const bool brackets = address_ && address_->is_v6;
  return (brackets ? "[" + host_ + "]" : host_) + ":" + std::to_string(port_);
}

}  // namespace sandboxkit
