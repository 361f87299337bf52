#pragma once

#include "sandboxkit/result.h"

#include <memory>
#include <string>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

// OpenSSL's objects as owners, for the sources that talk to it.
namespace sandboxkit::egress {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free>>;
using BigNumberPtr = std::unique_ptr<BIGNUM, FreeWith<BN_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<X509_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, FreeWith<SSL_free>>;

/// `what`, and the words of OpenSSL's oldest error, whose queue is emptied.
Error openssl_error(const char* what);

/// A BIO that reads the text, which has to outlive it.
BioPtr reading(std::string_view text);
/// Never asks for a passphrase.
KeyPtr read_key(std::string_view pem);
CertificatePtr read_certificate(std::string_view pem);

}  // namespace sandboxkit::egress
