#include "egress/tls_context.h"

#include "base/text.h"
#include "egress/openssl_types.h"

#include <utility>

#include <openssl/err.h>
#include <openssl/x509v3.h>

namespace sandboxkit::egress {
namespace {

constexpr int kMaxRoots = 2000;
constexpr int kMaxChain = 8;
constexpr std::string_view kHttp11{"\x08http/1.1", 9};
constexpr std::uint64_t kOptions = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE;

/// Called before anything else of OpenSSL: a proxy reads no configuration of the machine that it
/// stands on, which could load code.
void open_library() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

ContextPtr new_context(const SSL_METHOD* method) {
  open_library();
  ContextPtr context(SSL_CTX_new(method));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
    return nullptr;
  }
  SSL_CTX_set_options(context.get(), kOptions);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // An idle connection gives its buffers back.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

int check_name(SSL* ssl, int* alert, void* /*unused*/) {
  auto* expected = static_cast<TlsSession::Expected*>(SSL_get_app_data(ssl));
  const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (name != nullptr && equal_ignoring_case(name, expected->host)) {
    return SSL_TLSEXT_ERR_OK;
  }
  expected->name_refused = true;
  *alert = SSL_AD_UNRECOGNIZED_NAME;
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// A client that insists on another protocol is told so; one that does not ask gets HTTP/1.1.
int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned offered_size, void* /*unused*/) {
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(
      &chosen, out_size, reinterpret_cast<const unsigned char*>(kHttp11.data()),
      static_cast<unsigned>(kHttp11.size()), offered, offered_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Result<TlsSession> new_session(SSL_CTX* context, const std::string& host) {
  SslPtr ssl(SSL_new(context));
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (!ssl || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return openssl_error("cannot begin a TLS session");
  }
  SSL_set_bio(ssl.get(), in, out);  // Theirs now.
  auto expected = std::make_unique<TlsSession::Expected>(TlsSession::Expected{host});
  SSL_set_app_data(ssl.get(), expected.get());
  return TlsSession(ssl.release(), std::move(expected));
}

}  // namespace

TlsSession::TlsSession(TlsSession&& other) noexcept
    : ssl_(std::exchange(other.ssl_, nullptr)), expected_(std::move(other.expected_)) {}

TlsSession& TlsSession::operator=(TlsSession&& other) noexcept {
  if (this != &other) {
    SSL_free(ssl_);
    ssl_ = std::exchange(other.ssl_, nullptr);
    expected_ = std::move(other.expected_);
  }
  return *this;
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

TlsContext::TlsContext(TlsContext&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)) {}

TlsContext& TlsContext::operator=(TlsContext&& other) noexcept {
  if (this != &other) {
    SSL_CTX_free(context_);
    context_ = std::exchange(other.context_, nullptr);
  }
  return *this;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<TlsContext> TlsContext::for_server(const CertifiedKey& certified) {
  ContextPtr context = new_context(TLS_server_method());
  const CertificatePtr certificate = read_certificate(certified.certificate);
  const KeyPtr key = read_key(certified.key.view());
  if (!context || !certificate || !key ||
      SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return openssl_error("cannot serve TLS");
  }
  // The two macros of OpenSSL spelt out: theirs cast in the old style.
  SSL_CTX_callback_ctrl(context.get(), SSL_CTRL_SET_TLSEXT_SERVERNAME_CB,
                        reinterpret_cast<void (*)()>(check_name));
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  return TlsContext(context.release());
}

Result<TlsContext> TlsContext::for_client(std::string_view roots) {
  ContextPtr context = new_context(TLS_client_method());
  const BioPtr in = reading(roots);
  if (!context || !in) {
    return openssl_error("cannot speak TLS");
  }
  X509_STORE* store = SSL_CTX_get_cert_store(context.get());
  int count = 0;
  while (const CertificatePtr root{PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)}) {
    if (++count > kMaxRoots || X509_STORE_add_cert(store, root.get()) != 1) {
      return openssl_error("cannot take the root certificates");
    }
  }
  const unsigned long last = ERR_peek_last_error();
  const bool whole =
      ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
  if (!whole || count == 0) {
    ERR_clear_error();
    return Error{ErrorCode::kInvalidArgument, "must be root certificates in PEM", {}, "roots"};
  }
  ERR_clear_error();
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_verify_depth(context.get(), kMaxChain);
  return TlsContext(context.release());
}

Result<TlsSession> TlsContext::accept(const std::string& host) const {
  auto session = new_session(context_, host);
  if (session) {
    SSL_set_accept_state(session->ssl());
  }
  return session;
}

Result<TlsSession> TlsContext::connect(const std::string& host) const {
  auto session = new_session(context_, host);
  if (!session) {
    return session;
  }
  SSL* ssl = session->ssl();
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool good = SSL_set1_host(ssl, host.c_str()) == 1 &&
                    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                             const_cast<char*>(host.c_str())) == 1 &&
                    SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(kHttp11.data()),
                                        static_cast<unsigned>(kHttp11.size())) == 0;
  if (!good) {
    return openssl_error("cannot begin a TLS session");
  }
  SSL_set_connect_state(ssl);
  return session;
}

}  // namespace sandboxkit::egress
