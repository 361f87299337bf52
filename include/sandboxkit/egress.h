#pragma once

#include "sandboxkit/relax/unwalled_egress.h"
#include "sandboxkit/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// An IPv4 or IPv6 address as bytes. IPv4-mapped IPv6 is kept as the IPv4 address that it means.
struct SANDBOXKIT_API IpAddress {
  std::array<std::uint8_t, 16> bytes{};
  bool is_v6 = false;

  /// Reads only the canonical spellings: dotted quad without leading zeros, or RFC 4291 text
  /// without a zone. Never the inet_aton forms (`0x7f.1`, `2130706433`).
  static std::optional<IpAddress> parse(std::string_view text);
  std::string to_string() const;
  auto operator<=>(const IpAddress&) const = default;
};

/// How a client asked: the two schemes have different default ports in a policy.
enum class EgressScheme : std::uint8_t { kHttp, kConnect };

/// Where one connection wants to go, parsed once. Matcher, resolver, Host header, SNI check and
/// log all take this object and never the raw bytes.
///
/// Thread-safety: immutable value.
class SANDBOXKIT_API EgressTarget {
 public:
  /// Reads the authority of a CONNECT request: `host:port`, the port being required.
  /// The host is lower-cased and loses exactly one final dot.
  /// Errors: kInvalidArgument for non-ASCII, NUL, `%`, an empty label, a bad port, an odd spelling
  /// of an address: whatever is not plainly a DNS name or a canonical address.
  static Result<EgressTarget> from_authority(std::string_view authority);
  /// Reads an `http://host[:port]/...` URI; the default port is 80. Any other scheme is an error.
  static Result<EgressTarget> from_http_uri(std::string_view uri);

  const std::string& host() const { return host_; }
  std::uint16_t port() const { return port_; }
  EgressScheme scheme() const { return scheme_; }
  /// Set when the host is an address and not a name.
  const std::optional<IpAddress>& address() const { return address_; }
  /// `host:port`, with brackets around an IPv6 address.
  std::string to_string() const;

 private:
  EgressTarget(std::string host, std::uint16_t port, EgressScheme scheme,
               std::optional<IpAddress> address);
  std::string host_;
  std::uint16_t port_;
  EgressScheme scheme_;
  std::optional<IpAddress> address_;
};

/// Why a target was refused or let through. The names of `to_string` are stable.
enum class EgressReason : std::uint8_t {
  kAllowed,
  kNotInAllowList,
  kPortNotAllowed,
  kIpLiteral,
  kAddressClass,
  kSniMismatch,  ///< Strict TLS: the hello names another host than the CONNECT.
  kSniAbsent,    ///< Strict TLS: the hello names no host.
  kNotTls,       ///< Strict TLS: what came was no TLS hello that can be read without doubt.
};

SANDBOXKIT_API const char* name_of(EgressReason reason);

/// A decision with its reason. Made by default it is a refusal.
struct EgressVerdict {
  bool allowed = false;
  EgressReason reason = EgressReason::kNotInAllowList;
  /// The entry that decided, as it was written; empty when none matched.
  std::string rule{};
};

/// The allow-list of one sandbox. Immutable: to change it, create another sandbox.
///
/// Entries: `[*.]label(.label)+[:port]`. `example.org` allows that name only; `*.example.org`
/// allows names below it, at any depth, and not the name itself. Without a port an entry allows
/// port 80 for plain HTTP and 443 for CONNECT; with one, that port only, in both schemes. ASCII
/// case is folded. Networks: `10.1.0.0/16[:port]` lift the built-in refusal of private address
/// classes for answers of an allowed name, and for address literals inside of them. Limits: 0..256
/// domains and 0..64 networks; an empty list allows nothing. Blocking: never; it resolves nothing.
/// Thread-safety: const members may be called from any thread.
/// Source: design of the wall, sections 3 and 4.
class SANDBOXKIT_API EgressPolicy {
 public:
  static constexpr std::size_t kMaxDomains = 256;
  static constexpr std::size_t kMaxNetworks = 64;
  static constexpr std::size_t kMaxEntryBytes = 262;  // 253 + "*." + ":65535" and a little

  /// Errors: kInvalidArgument, `field` naming the entry (`allowed_domains[3]`), the message naming
  /// the fix: too many entries, a duplicate, an address, a name that DNS would not take, a scheme
  /// or a path, a `*` anywhere but as the first label of three or more.
  static Result<EgressPolicy> create(std::span<const std::string> allowed_domains,
                                     std::span<const std::string> allowed_networks);

  /// The policy that allows nothing.
  static EgressPolicy deny_all();

  /// The same lists, and every CONNECT must carry TLS whose hello names the CONNECT host: what is
  /// something else is closed before a byte of it is passed on.
  EgressPolicy with_strict_tls() const;
  bool strict_tls() const { return strict_tls_; }

  /// Judges a name before anything is resolved.
  EgressVerdict decide(const EgressTarget& target) const;

  /// Judges an address that an allowed name resolved to (or that the client named itself). Built-in
  /// classes (loopback, private, link-local, metadata, ...) are refused unless a network lifts
  /// them.
  EgressVerdict decide_address(const EgressTarget& target, const IpAddress& address) const;

  /// The entries of this policy, as they were written, that no entry of `wider` covers: what they
  /// allow, `wider` may not. Covered is told entry by entry, so a few entries that together allow
  /// no more are named all the same (a block that two halves cover, say). `strict_tls` when `wider`
  /// is strict about TLS and this one is not.
  std::vector<std::string> beyond(const EgressPolicy& wider) const;
  /// Whether whatever this policy allows, names and addresses, is allowed by `wider` as well.
  bool narrows(const EgressPolicy& wider) const { return beyond(wider).empty(); }

  const std::vector<std::string>& allowed_domains() const;
  const std::vector<std::string>& allowed_networks() const;

  /// Canonical text: equal for policies that decide alike entry by entry. Input of the policy hash.
  std::string canonical() const;

 private:
  struct Rules;
  explicit EgressPolicy(std::shared_ptr<const Rules> rules, bool strict_tls = false);
  // Shared, because a compiled policy is immutable and copied into every connection.
  std::shared_ptr<const Rules> rules_;
  bool strict_tls_;
};

/// What a sandbox may reach. Has no default and no empty state: someone chose.
class SANDBOXKIT_API Egress {
 public:
  static Egress walled(EgressPolicy policy) { return Egress(std::move(policy)); }
  static Egress unwalled(const UnwalledEgress&) { return Egress(std::nullopt); }

  bool is_walled() const { return policy_.has_value(); }
  /// Null when unwalled.
  const EgressPolicy* policy() const { return policy_ ? &*policy_ : nullptr; }

 private:
  explicit Egress(std::optional<EgressPolicy> policy) : policy_(std::move(policy)) {}
  std::optional<EgressPolicy> policy_;
};

}  // namespace sandboxkit
