#include "store/credentials.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <openssl/sha.h>

namespace sandboxkit::store {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"sk", "jn", "wk", "op"};

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? (value >> 1) ^ 0xEDB88320U : value >> 1;
    }
    table[i] = value;
  }
  return table;
}

std::uint32_t crc32(std::string_view text) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : text) {
    crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  }
  return crc ^ 0xFFFFFFFFU;
}

std::string checksum(std::string_view text) {
  std::string out(kCredentialChecksumChars, '0');
  std::uint32_t rest = crc32(text);
  for (auto digit = out.rbegin(); digit != out.rend(); ++digit) {
    *digit = kBase62[rest % 62];
    rest /= 62;
  }
  return out;
}

bool is_base62(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return std::string_view(kBase62).find(c) != std::string_view::npos; });
}

}  // namespace

NewCredential make_credential(std::string_view kind, Random& random) {
  NewCredential made{{std::string(kind), random.text(kCredentialIdChars, kBase62)}, {}, {}};
  made.text =
      made.name.kind + "_" + made.name.id + "_" + random.text(kCredentialSecretChars, kBase62);
  made.text += checksum(made.text);
  made.secret_hash = sha256_hex(made.text);
  return made;
}

std::optional<CredentialName> parse_credential(std::string_view text) {
  const std::size_t first = text.find('_');
  if (first == std::string_view::npos ||
      std::ranges::find(kKinds, text.substr(0, first)) == kKinds.end()) {
    return std::nullopt;
  }
  const std::size_t second = first + 1 + kCredentialIdChars;
  const std::size_t size = second + 1 + kCredentialSecretChars + kCredentialChecksumChars;
  if (text.size() != size || text[second] != '_') {
    return std::nullopt;
  }
  const std::string_view id = text.substr(first + 1, kCredentialIdChars);
  const std::string_view body = text.substr(0, size - kCredentialChecksumChars);
  if (!is_base62(id) || !is_base62(text.substr(second + 1)) ||
      !equal_constant_time(checksum(body), text.substr(body.size()))) {
    return std::nullopt;
  }
  return CredentialName{std::string(text.substr(0, first)), std::string(id)};
}

bool matches_hash(std::string_view text, std::string_view secret_hash) {
  return equal_constant_time(sha256_hex(text), secret_hash);
}

std::string sha256_hex(std::string_view bytes) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return to_hex(digest);
}

}  // namespace sandboxkit::store
