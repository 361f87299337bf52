#include "agent/grant_file.h"

#include "base/text.h"

#include <utility>

namespace sandboxkit::agent {
namespace {

constexpr std::string_view kPurpose = "sandboxkit grants v1";
constexpr std::string_view kBeforeMac = ",\"mac\":\"hmac-sha256:";
constexpr std::string_view kAfterMac = "\"}\n";
constexpr std::size_t kMacChars = 64;
constexpr std::size_t kTailBytes = kBeforeMac.size() + kMacChars + kAfterMac.size();

}  // namespace

Error grants_ignored(const char* what, const std::string& why) {
  return Error{ErrorCode::kConflict, "grants-ignored: " + why, "grants_ignored", what};
}

std::string sign_grants(const KeptGrants& grants, const audit::Key& key) {
  std::string text = to_json(grants);
  const std::string mac = key.sign(kPurpose, text);
  text.pop_back();  // The brace, which comes after the MAC.
  return text.append(kBeforeMac).append(mac).append(kAfterMac);
}

Result<KeptGrants> open_grants(std::string_view text, const audit::Key& key) {
  const auto bad_mac = [] {
    return grants_ignored("mac", "the MAC does not hold: something else than the gate wrote it");
  };
  if (text.size() <= kTailBytes) {
    return bad_mac();
  }
  const std::string_view tail = text.substr(text.size() - kTailBytes);
  const std::string_view mac = tail.substr(kBeforeMac.size(), kMacChars);
  const std::string body = std::string(text.substr(0, text.size() - kTailBytes)) + "}";
  const std::string expected = key.sign(kPurpose, body);
  // A key that cannot sign gives an empty MAC, which no file has.
  if (!tail.starts_with(kBeforeMac) || !tail.ends_with(kAfterMac) || expected.size() != kMacChars ||
      !equal_constant_time(mac, expected)) {
    return bad_mac();
  }
  auto grants = parse_kept_grants(body);
  if (!grants) {
    return grants_ignored("json", grants.error().message);
  }
  return grants;
}

}  // namespace sandboxkit::agent
