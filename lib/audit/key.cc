#include "audit/key.h"

#include "audit/files.h"
#include "base/text.h"
#include "io/fd.h"

#include <cerrno>
#include <span>

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::audit {
namespace {

constexpr mode_t kForOthers = 077;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());  // NOLINT: the library's own type.
}

Error bad_key(const std::string& path, const std::string& why,
              ErrorCode code = ErrorCode::kInvalidArgument) {
  return Error{code, "the audit key " + quoted(path) + " " + why, "bad_audit_key", "key_file"};
}

Error key_errno(const std::string& path, int error_number) {
  const Error error = io::error_from_errno("cannot be read", error_number);
  const bool absent = error.code == ErrorCode::kNotFound;
  return bad_key(path, error.message, absent ? error.code : ErrorCode::kInvalidArgument);
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(bytes_of(bytes), bytes.size(), digest.data());
  return to_hex(digest);
}

Result<Key> Key::load(const std::string& path) {
  // Non-blocking: somebody may have put a pipe there.
  const io::Fd file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
  if (!file) {
    return key_errno(path, errno);
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return bad_key(path, "is no plain file");
  }
  if (facts.st_uid != ::geteuid()) {
    return bad_key(path, "belongs to another user");
  }
  if ((facts.st_mode & kForOthers) != 0) {
    return bad_key(path, "may be used by others than its owner; make its mode 0600");
  }
  Bytes bytes{};
  if (facts.st_size != static_cast<off_t>(kBytes) ||
      ::read(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(kBytes)) {
    return bad_key(path, "does not hold exactly 32 bytes");
  }
  return Key(bytes);
}

Result<Key> Key::load_or_create(const std::string& path, Random& random) {
  auto loaded = load(path);
  if (loaded || loaded.error().code != ErrorCode::kNotFound) {
    return loaded;
  }
  Bytes bytes{};
  random.fill(bytes);
  const std::string text(bytes.begin(), bytes.end());
  // Who comes second takes the first one's.
  const auto made = create_file_once({AT_FDCWD, path}, text, random);
  if (!made && made.error().code != ErrorCode::kConflict) {
    return made.error();
  }
  return load(path);
}

std::string Key::sign(std::string_view purpose, std::string_view text) const {
  std::string input(purpose);
  input += '\n';
  input += text;
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()), bytes_of(input),
           input.size(), out.data(), &size) == nullptr) {
    return {};
  }
  return to_hex(std::span(out).first(size));
}

}  // namespace sandboxkit::audit
