#include "egress/engine.h"

#include "base/text.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kForbidden = 403;
constexpr int kTooMany = 429;

const char* name_of(EgressScheme scheme) {
  return scheme == EgressScheme::kConnect ? "connect" : "http";
}

std::string explanation(const EgressTarget& target, const EgressVerdict& verdict,
                        const std::string& address) {
  const std::string what = quoted(target.to_string());
  switch (verdict.reason) {
    case EgressReason::kAllowed:
      break;  // Never denied with this reason; the words below fit all the same.
    case EgressReason::kNotInAllowList:
      return what + " is not on this sandbox's allow-list.";
    case EgressReason::kPortNotAllowed:
      return what + " is on this sandbox's allow-list for other ports (" + quoted(verdict.rule) +
             ") and not for this one.";
    case EgressReason::kIpLiteral:
      return what + " is an address; this sandbox may only name hosts.";
    case EgressReason::kAddressClass:
      return what + " resolves to " + (address.empty() ? "an address" : quoted(address)) +
             ", which is internal and not open to this sandbox.";
    case EgressReason::kSniMismatch:
    case EgressReason::kSniAbsent:
    case EgressReason::kNotTls:
      return what + " is open to TLS that names it, and to nothing else.";
  }
  return what + " is not open to this sandbox.";
}

/// What a client sent as a name, fit to be read: bounded, and visible ASCII alone.
std::string printable_name(const std::string& name) {
  constexpr std::size_t kMaxShown = 253;
  std::string out = name.substr(0, kMaxShown);
  std::ranges::replace_if(
      out, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace

bool LookupRate::take(std::size_t per_minute, std::chrono::steady_clock::time_point now) {
  if (now - began >= std::chrono::minutes(1)) {
    began = now;
    used = 0;
  }
  if (used >= per_minute) {
    return false;
  }
  ++used;
  return true;
}

std::optional<Refusal> out_of_bytes(const Engine& engine) {
  if (engine.tunnels.bytes_left > 0) {
    return std::nullopt;
  }
  return Refusal{kTooMany, "byte_limit",
                 "This sandbox has used up the bytes that it may send and receive."};
}

bool spend(Engine& engine, std::size_t bytes) {
  engine.tunnels.bytes_left -= std::min<std::uint64_t>(bytes, engine.tunnels.bytes_left);
  return engine.tunnels.bytes_left > 0;
}

void log_decision(Engine& engine, const EgressTarget& target, bool allowed,
                  const EgressVerdict& verdict, const std::string& address) {
  engine.log.write(json::Object{{"time", to_rfc3339(engine.clock.now())},
                                {"event", "decision"},
                                {"scheme", name_of(target.scheme())},
                                {"host", target.host()},
                                {"port", static_cast<int>(target.port())},
                                {"decision", allowed ? "allow" : "deny"},
                                {"reason", sandboxkit::name_of(verdict.reason)},
                                {"rule", verdict.rule},
                                {"address", address}});
}

void log_other_name(Engine& engine, const EgressTarget& target, const std::string& server_name) {
  ++engine.stats.sni_other;
  engine.log.write(json::Object{{"time", to_rfc3339(engine.clock.now())},
                                {"event", "sni_other"},
                                {"host", target.host()},
                                {"port", static_cast<int>(target.port())},
                                {"sni", printable_name(server_name)}});
}

Refusal deny(Engine& engine, const EgressTarget& target, const EgressVerdict& verdict,
             const std::string& address) {
  const char* reason = sandboxkit::name_of(verdict.reason);
  ++engine.stats.denied;
  engine.denied.add(target, reason, engine.clock.now());
  log_decision(engine, target, false, verdict, address);
  return {kForbidden, reason,
          explanation(target, verdict, address) +
              " This is the sandbox's egress policy and no network failure: trying again does not "
              "help. Its owner can allow more when the next sandbox is created."};
}

}  // namespace sandboxkit::egress
