#include "egress/authority.h"

#include "egress/openssl_types.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

namespace sandboxkit::egress {
namespace {

constexpr std::size_t kMaxHosts = 16;
constexpr long kX509Version3 = 2;
constexpr std::size_t kSerialBytes = 16;
constexpr const char* kCurve = "P-256";

Error failed(const char* what) { return openssl_error(what); }

std::string pem_of(X509* certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (!out || PEM_write_bio_X509(out.get(), certificate) != 1) {
    return {};
  }
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

SecretText pem_of(EVP_PKEY* key) {
  const BioPtr out(BIO_new(BIO_s_secmem()));
  char* data = nullptr;
  if (!out ||
      PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return {};
  }
  const long size = BIO_get_mem_data(out.get(), &data);
  return SecretText(std::string(data, static_cast<std::size_t>(size)));
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return false;
  }
  bytes.front() &= 0x7f;  // Positive, and never zero in practice or by the next line.
  bytes.back() |= 1;
  const BigNumberPtr number(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_times(X509* certificate, WallTime from, WallTime until) {
  const auto seconds = [](WallTime time) {
    return static_cast<time_t>(
        std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count());
  };
  return ASN1_TIME_set(X509_getm_notBefore(certificate), seconds(from)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), seconds(until)) != nullptr;
}

bool add_name(X509* certificate, const char* field, const std::string& text) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1,
                                    0) == 1;
}

/// `value` as openssl.cnf spells it; no part of it comes from a peer unchecked.
bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

CertificatePtr begin_certificate(EVP_PKEY* key) {
  CertificatePtr certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), kX509Version3) != 1 ||
      !set_serial(certificate.get()) || X509_set_pubkey(certificate.get(), key) != 1 ||
      !add_name(certificate.get(), "O", "sandboxkit")) {
    return nullptr;
  }
  return certificate;
}

/// A host is a name of letters, digits, dots, `-` and `_`: text that means nothing else in an
/// extension's spelling.
bool is_plain_host(const std::string& host) {
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  });
}

std::string constraint_of(const std::vector<std::string>& hosts) {
  // A constraint on names leaves addresses free, so they are excluded by themselves.
  std::string text = "critical,excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:::/::";
  for (const std::string& host : hosts) {
    text += ",permitted;DNS:" + host;
  }
  return text;
}

}  // namespace

Error openssl_error(const char* what) {
  std::array<char, 160> text{};
  const unsigned long code = ERR_get_error();
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return Error{ErrorCode::kInternal,
               std::string(what) + (code == 0 ? "" : ": " + std::string(text.data()))};
}

BioPtr reading(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

KeyPtr read_key(std::string_view pem) {
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  return KeyPtr(PEM_read_bio_PrivateKey(reading(pem).get(), nullptr, no_passphrase, nullptr));
}

CertificatePtr read_certificate(std::string_view pem) {
  return CertificatePtr(PEM_read_bio_X509(reading(pem).get(), nullptr, nullptr, nullptr));
}

Result<CertifiedKey> make_authority(const AuthorityTerms& terms) {
  if (terms.hosts.empty() || terms.hosts.size() > kMaxHosts ||
      !std::ranges::all_of(terms.hosts, is_plain_host)) {
    return Error{ErrorCode::kInvalidArgument, "an authority speaks for 1 to 16 host names"};
  }
  const KeyPtr key(EVP_EC_gen(kCurve));
  if (!key) {
    return failed("cannot make a key");
  }
  const CertificatePtr made = begin_certificate(key.get());
  X509* certificate = made.get();
  // The serial number in the name keeps the authorities of several sandboxes apart in a folder that
  // is indexed by name.
  std::array<unsigned char, 8> mark{};
  if (certificate == nullptr || RAND_bytes(mark.data(), static_cast<int>(mark.size())) != 1) {
    return failed("cannot make a certificate");
  }
  std::string name = "sandboxkit lent secrets ";
  for (const unsigned char byte : mark) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 0xf];
  }
  const bool good =
      add_name(certificate, "CN", name) && set_times(certificate, terms.from, terms.until) &&
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
      add_extension(certificate, certificate, NID_basic_constraints,
                    "critical,CA:TRUE,pathlen:0") &&
      add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign") &&
      add_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
      add_extension(certificate, certificate, NID_name_constraints, constraint_of(terms.hosts)) &&
      X509_sign(certificate, key.get(), EVP_sha256()) > 0;
  if (!good) {
    return failed("cannot make the authority's certificate");
  }
  return CertifiedKey{pem_of(certificate), pem_of(key.get())};
}

Result<CertifiedKey> issue_leaf(const CertifiedKey& authority, const std::string& host) {
  const CertificatePtr issuer = read_certificate(authority.certificate);
  const KeyPtr issuer_key = read_key(authority.key.view());
  if (!issuer || !issuer_key || !is_plain_host(host) ||
      X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
    ERR_clear_error();
    return Error{ErrorCode::kInvalidArgument, "the authority cannot be read"};
  }
  const KeyPtr key(EVP_EC_gen(kCurve));
  if (!key) {
    return failed("cannot make a key");
  }
  const CertificatePtr made = begin_certificate(key.get());
  X509* certificate = made.get();
  const bool good =
      certificate != nullptr &&
      X509_set1_notBefore(certificate, X509_get0_notBefore(issuer.get())) == 1 &&
      X509_set1_notAfter(certificate, X509_get0_notAfter(issuer.get())) == 1 &&
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer.get())) == 1 &&
      add_extension(certificate, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(certificate, issuer.get(), NID_key_usage, "critical,digitalSignature") &&
      add_extension(certificate, issuer.get(), NID_ext_key_usage, "serverAuth") &&
      add_extension(certificate, issuer.get(), NID_subject_key_identifier, "hash") &&
      add_extension(certificate, issuer.get(), NID_authority_key_identifier, "keyid:always") &&
      add_extension(certificate, issuer.get(), NID_subject_alt_name, "DNS:" + host) &&
      X509_sign(certificate, issuer_key.get(), EVP_sha256()) > 0;
  if (!good) {
    return failed("cannot make a server's certificate");
  }
  return CertifiedKey{pem_of(certificate), pem_of(key.get())};
}

Result<std::string> folder_name_of(std::string_view certificate) {
  const CertificatePtr read = read_certificate(certificate);
  if (!read) {
    ERR_clear_error();
    return Error{ErrorCode::kInvalidArgument, "this is no certificate"};
  }
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%08lx.0",
                X509_NAME_hash_ex(X509_get_subject_name(read.get()), nullptr, nullptr, nullptr));
  return std::string(text.data());
}

}  // namespace sandboxkit::egress
