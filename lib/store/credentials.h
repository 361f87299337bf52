#pragma once

#include "base/random.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::store {

/// `<kind>_<8 characters id>_<32 characters secret><6 characters checksum>`, base62.
///
/// The checksum is CRC-32 of everything before it in base62, left-padded with `0`: a secret scanner
/// and we ourselves can tell a typo from a guess without a look-up. The store keeps the id and the
/// SHA-256 of the whole text; the text itself is shown once.
/// Source: architecture, section 3.
inline constexpr std::size_t kCredentialIdChars = 8;
inline constexpr std::size_t kCredentialSecretChars = 32;
inline constexpr std::size_t kCredentialChecksumChars = 6;

/// The public part of a credential.
struct CredentialName {
  std::string kind;  ///< sk, jn, wk, op.
  std::string id;
};

struct NewCredential {
  CredentialName name;
  std::string text;         ///< Shown once, never stored.
  std::string secret_hash;  ///< sha256_hex of the text.
};

NewCredential make_credential(std::string_view kind, Random& random);

/// The public part; nullopt for a text that is malformed or whose checksum does not match, which
/// needs no look-up to be refused.
std::optional<CredentialName> parse_credential(std::string_view text);

/// Whether the text is the one whose hash is stored; constant time.
bool matches_hash(std::string_view text, std::string_view secret_hash);

/// SHA-256 in lower-case hex.
std::string sha256_hex(std::string_view bytes);

}  // namespace sandboxkit::store
