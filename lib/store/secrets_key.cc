#include "store/secrets_key.h"

#include "base/text.h"
#include "io/fd.h"

#include <cerrno>
#include <memory>
#include <span>

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::store {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr mode_t kForOthers = 077;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

Error bad_file(const std::string& path, const char* why) {
  return Error{ErrorCode::kInvalidArgument,
               "the secrets key " + quoted(path) + " " + why,
               {},
               "secrets_key_file"};
}

Error cannot_open() { return Error{ErrorCode::kInternal, "a sealed secret does not open"}; }

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());  // NOLINT: the library's own type.
}

std::uint8_t* bytes_of(std::string& text) {
  return reinterpret_cast<std::uint8_t*>(text.data());  // NOLINT: the library's own type.
}

}  // namespace

Result<SecretsKey> SecretsKey::load(const std::string& path) {
  const io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY));
  if (!file) {
    return Error{errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
                 io::error_from_errno(("the secrets key " + quoted(path)).c_str(), errno).message,
                 {},
                 "secrets_key_file"};
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return bad_file(path, "is no plain file");
  }
  if ((facts.st_mode & kForOthers) != 0) {
    return bad_file(path, "may be used by others than its owner; make its mode 0600");
  }
  Bytes bytes{};
  if (facts.st_size != static_cast<off_t>(kBytes) ||
      ::read(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(kBytes)) {
    return bad_file(path, "does not hold exactly 32 bytes");
  }
  return SecretsKey(bytes);
}

Result<std::string> SecretsKey::seal(std::string_view value, std::string_view context,
                                     Random& random) const {
  std::array<std::uint8_t, kNonceBytes> nonce{};
  random.fill(nonce);
  std::string out(kNonceBytes + value.size() + kTagBytes, '\0');
  out.replace(0, kNonceBytes, std::string(nonce.begin(), nonce.end()));
  std::uint8_t* text = bytes_of(out) + kNonceBytes;
  const Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  int done = 0;
  if (!cipher ||
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_.data(), nonce.data()) !=
          1 ||
      EVP_EncryptUpdate(cipher.get(), nullptr, &done, bytes_of(context),
                        static_cast<int>(context.size())) != 1 ||
      EVP_EncryptUpdate(cipher.get(), text, &done, bytes_of(value),
                        static_cast<int>(value.size())) != 1 ||
      EVP_EncryptFinal_ex(cipher.get(), text + value.size(), &done) != 1 ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, text + value.size()) !=
          1) {
    return Error{ErrorCode::kInternal, "a secret cannot be sealed"};
  }
  return base64_encode(out);
}

Result<std::string> SecretsKey::open(std::string_view sealed, std::string_view context) const {
  auto raw = base64_decode(sealed);
  if (!raw || raw->size() < kNonceBytes + kTagBytes) {
    return cannot_open();
  }
  const std::size_t size = raw->size() - kNonceBytes - kTagBytes;
  std::uint8_t* nonce = bytes_of(*raw);
  std::uint8_t* text = nonce + kNonceBytes;
  std::string value(size, '\0');
  const Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  int done = 0;
  if (!cipher ||
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_.data(), nonce) != 1 ||
      EVP_DecryptUpdate(cipher.get(), nullptr, &done, bytes_of(context),
                        static_cast<int>(context.size())) != 1 ||
      EVP_DecryptUpdate(cipher.get(), bytes_of(value), &done, text, static_cast<int>(size)) != 1 ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, text + size) != 1 ||
      EVP_DecryptFinal_ex(cipher.get(), bytes_of(value) + size, &done) != 1) {
    return cannot_open();
  }
  return value;
}

std::string SecretsKey::digest(std::string_view text) const {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()), bytes_of(text),
           text.size(), out.data(), &size) == nullptr) {
    return {};
  }
  return to_hex(std::span(out).first(size));
}

}  // namespace sandboxkit::store
