#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include "egress/secret_text.h"

#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::egress {

/// A certificate and its private key, both as PEM.
struct CertifiedKey {
  std::string certificate;
  SecretText key;
};

/// For what an authority may speak, and when.
struct AuthorityTerms {
  std::vector<std::string> hosts;  ///< 1 to 16 names, lower case, without a port.
  WallTime from;
  WallTime until;
};

/// Makes the authority of one sandbox: P-256, self-signed, and by a critical name constraint good
/// for the given hosts alone (and names below them: RFC 5280 knows no narrower form), for no
/// address, and for no further authority.
/// Errors: kInvalidArgument for no host or too many; kInternal when OpenSSL fails.
/// Source: RFC 5280, section 4.2.1.10.
Result<CertifiedKey> make_authority(const AuthorityTerms& terms);

/// A server's certificate for one host, with a fresh key, for as long as the authority lives.
/// Errors: kInvalidArgument for an authority that cannot be read; kInternal.
Result<CertifiedKey> issue_leaf(const CertifiedKey& authority, const std::string& host);

/// The name under which OpenSSL looks for this certificate in a folder: `9d66eef0.0`.
/// Errors: kInvalidArgument when it is no PEM certificate.
Result<std::string> folder_name_of(std::string_view certificate);

}  // namespace sandboxkit::egress
