#include "docker/lending.h"

#include "base/text.h"
#include "egress/secret_book.h"
#include "io/fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::docker {
namespace {

constexpr const char* kAuthorityFile = "/authority.pem";
constexpr const char* kKeyBegins = "-----BEGIN PRIVATE KEY-----";
constexpr std::size_t kMaxAuthorityBytes = 64 * 1024;
/// Clocks differ a little.
constexpr std::chrono::minutes kBefore{5};
/// A sandbox may be renewed; one that lives on past this needs a new creation for its secrets.
constexpr std::chrono::hours kAfter{30 * 24};

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    return io::error_from_errno(("open " + sandboxkit::quoted(path)).c_str(), errno);
  }
  std::string text;
  std::array<char, 16 * 1024> buffer{};
  ssize_t got = 0;
  while ((got = ::read(file.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      return Error{ErrorCode::kTooLarge, sandboxkit::quoted(path) + " is too large"};
    }
  }
  if (got < 0) {
    return io::error_from_errno(("read " + sandboxkit::quoted(path)).c_str(), errno);
  }
  return text;
}

Status write_private(const std::string& path, std::string_view text) {
  ::unlink(path.c_str());  // A new file, so that nobody has it open.
  const io::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  // Small: a write that is not whole is a disk that is full.
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return io::error_from_errno("cannot keep the authority of lent secrets", errno);
  }
  return {};
}

}  // namespace

Result<egress::CertifiedKey> make_lending(const SandboxOrder& order, WallTime now) {
  std::set<std::string> hosts;
  for (const LentSecret& secret : order.spec.secrets) {
    hosts.insert(secret.domain.substr(0, secret.domain.find(':')));
  }
  return egress::make_authority({.hosts = {hosts.begin(), hosts.end()},
                                 .from = now - kBefore,
                                 .until = std::max(order.expires_at, now) + kAfter});
}

Status keep_lending(const std::string& folder, const egress::CertifiedKey& authority) {
  const egress::SecretText both(authority.certificate + std::string(authority.key.view()));
  return write_private(folder + kAuthorityFile, both.view());
}

Result<egress::CertifiedKey> read_lending(const std::string& folder) {
  auto text = read_file(folder + kAuthorityFile, kMaxAuthorityBytes);
  const std::size_t key = text ? text->find(kKeyBegins) : std::string::npos;
  if (key == std::string::npos) {
    return Error{ErrorCode::kNotFound, "the sandbox was made without secrets"};
  }
  egress::CertifiedKey authority{text->substr(0, key), egress::SecretText(text->substr(key))};
  egress::wipe(*text);
  return authority;
}

Result<std::string> read_roots(const std::string& path) {
  auto roots = read_file(path, egress::SecretOrder::kMaxRootsBytes);
  if (!roots) {
    return Error{ErrorCode::kUnavailable, "no root certificates: " + roots.error().message, "",
                 "egress_ca_file"};
  }
  return roots;
}

std::string order_text(std::span<const LentSecret> secrets, const egress::CertifiedKey& authority,
                       const std::string& roots) {
  egress::SecretOrder order;
  order.secrets.assign(secrets.begin(), secrets.end());
  order.authority = {authority.certificate, egress::SecretText(std::string(authority.key.view()))};
  order.roots = roots;
  return egress::write_secret_order(order);
}

}  // namespace sandboxkit::docker
