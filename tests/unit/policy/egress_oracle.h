#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The rules of the wall written down a second time, slow and plain, from the text of the design
/// (section 3) and not from the code: whatever is decided in two ways is a defect of one of them.
/// Shares nothing with lib/policy; addresses are read by the C library.
namespace sandboxkit::egress_oracle {

__extension__ typedef unsigned __int128 Number;  // NOLINT(modernize-use-using)

/// An address as a number, version 4 in the low 32 bits; `v6` keeps the two apart.
struct Address {
  bool v6;
  Number number;
  bool operator==(const Address&) const = default;
};
/// What inet_pton takes; the mapped form of version 6 is the address of version 4 that it means.
std::optional<Address> address(const std::string& text);
std::string text(const Address& address);

struct Block {
  Address base;
  unsigned bits;
  Number size() const;  ///< 0: the whole of version 6.
  Address first() const { return base; }
  Address last() const;
  bool contains(const Address& address) const;
};
Block block(const std::string& text);

/// Everything that the design lists, and nothing else.
bool is_special(const Address& address);
const std::vector<std::string>& special_blocks();

/// `[*.]label(.label)+[:port]`
struct Domain {
  bool below;
  std::string name;
  int port;  ///< 0: as the scheme has it.
};
std::optional<Domain> domain(std::string text);

struct Network {
  Block block;
  int port;
};
Network network(const std::string& text);

/// A name as a request may spell it, without a port: lower case, one final dot dropped; nullopt
/// when it is no name. An address in its plain spelling is no name.
std::optional<std::string> host(std::string text);

struct Target {
  std::string host;
  int port;
  bool connect;
  std::optional<Address> literal;
};

enum class Answer : std::uint8_t { kAllowed, kNotListed, kWrongPort, kLiteral, kAddressClass };
struct Verdict {
  Answer answer;
  int entry;  ///< Of the list that decided; -1 when none did.
  bool operator==(const Verdict&) const = default;
};

struct Policy {
  std::vector<Domain> domains;
  std::vector<Network> networks;
};
Verdict decide(const Policy& policy, const Target& target);
Verdict decide_address(const Policy& policy, const Target& target, const Address& answer);

}  // namespace sandboxkit::egress_oracle
