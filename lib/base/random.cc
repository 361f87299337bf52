#include "base/random.h"

#include "base/check.h"

#include <array>
#include <cstring>

#include <sys/random.h>

namespace sandboxkit {
namespace {

class SystemRandom final : public Random {
 public:
  void fill(std::span<std::uint8_t> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
      SANDBOXKIT_CHECK(got > 0, "getrandom without flags does not fail once the kernel is up");
      done += static_cast<std::size_t>(got);
    }
  }
};

}  // namespace

std::uint64_t Random::next_u64() {
  std::array<std::uint8_t, 8> bytes{};
  fill(bytes);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string Random::text(std::size_t length, const char* alphabet) {
  const std::size_t symbols = std::strlen(alphabet);
  SANDBOXKIT_CHECK(symbols > 0 && symbols <= 256, "an alphabet of one byte's values");
  // Bytes at and above the largest multiple are thrown away: a plain modulo would favour some.
  const std::size_t usable = 256 - 256 % symbols;
  std::string out;
  out.reserve(length);
  while (out.size() < length) {
    std::array<std::uint8_t, 32> bytes{};
    fill(bytes);
    for (const std::uint8_t byte : bytes) {
      if (byte < usable && out.size() < length) {
        out.push_back(alphabet[byte % symbols]);
      }
    }
  }
  return out;
}

Random& system_random() {
  static SystemRandom random;
  return random;
}

}  // namespace sandboxkit
