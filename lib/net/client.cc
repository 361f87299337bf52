#include "sandboxkit/client.h"

#include "sandboxkit/version.h"

#include "base/percent.h"
#include "base/text.h"
#include "json/value.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <curl/curl.h>

namespace sandboxkit {

namespace {

/// Largest answer that is collected in memory; larger ones are for `on_body`.
constexpr std::size_t kMaxCollectedBytes = 64 * 1024 * 1024;
/// Connections that are kept for the next call.
constexpr std::size_t kMaxIdleHandles = 8;
constexpr std::size_t kMaxHeaderBytes = 64 * 1024;

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct SlistDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct CurlTextDeleter {
  void operator()(char* text) const { curl_free(text); }
};
using Handle = std::unique_ptr<CURL, CurlDeleter>;
using HeaderList = std::unique_ptr<curl_slist, SlistDeleter>;

bool start_curl_once() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

Error invalid(std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message)};
}

std::optional<std::string> url_part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) {
    return std::nullopt;
  }
  const std::unique_ptr<char, CurlTextDeleter> owner(text);
  return std::string(text);
}

/// `http://host:port` without a final slash.
Result<std::string> base_of(const std::string& url) {
  const std::unique_ptr<CURLU, CurlUrlDeleter> parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return invalid("the controller's url " + quoted(url) + " is no url");
  }
  const auto scheme = url_part(parsed.get(), CURLUPART_SCHEME).value_or("");
  if (scheme != "http" && scheme != "https") {
    return invalid("the controller's url " + quoted(url) + " must start with http:// or https://");
  }
  const bool bare =
      url_part(parsed.get(), CURLUPART_PATH).value_or("/") == "/" &&
      !url_part(parsed.get(), CURLUPART_QUERY) && !url_part(parsed.get(), CURLUPART_FRAGMENT) &&
      !url_part(parsed.get(), CURLUPART_USER) && !url_part(parsed.get(), CURLUPART_PASSWORD);
  if (!bare) {
    return invalid("the controller's url must be a scheme, a host and a port alone");
  }
  std::string base = url;
  if (base.ends_with('/')) {
    base.pop_back();
  }
  return base;
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

/// Free of what would end a line or a C string.
bool is_one_line(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

Status check(const ClientRequest& request) {
  const bool method_ok = !request.method.empty() && std::ranges::all_of(request.method, [](char c) {
    return c >= 'A' && c <= 'Z';
  });
  if (!method_ok) {
    return invalid("bad method " + quoted(request.method));
  }
  const bool target_ok =
      request.target.starts_with('/') &&
      std::ranges::all_of(request.target, [](char c) { return c > ' ' && c < 0x7f; });
  if (!target_ok) {
    return invalid("bad target " + quoted(request.target) + ", percent-encode its parts");
  }
  for (const auto& [name, value] : request.headers) {
    if (!is_header_name(name) || !is_one_line(value)) {
      return invalid("bad header " + quoted(name));
    }
  }
  return {};
}

/// What the callbacks of one transfer need.
struct Transfer {
  const ClientRequest& request;
  CURL* handle;
  ClientResponse response{};
  std::optional<Error> stopped{};  ///< Why a callback ended the call.
  std::size_t header_bytes = 0;
};

std::size_t on_read(char* out, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto got = transfer.request.read_body({out, size * count});
  if (!got) {
    transfer.stopped = got.error();
    return CURL_READFUNC_ABORT;
  }
  return *got;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > kMaxHeaderBytes) {
    transfer.stopped = Error{ErrorCode::kTooLarge, "the answer's head is too large"};
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    transfer.response.headers.clear();  // an interim answer came before
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    transfer.response.headers[ascii_lower(line.substr(0, colon))] = trim(line.substr(colon + 1));
  }
  return line.size();
}

std::size_t on_write(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::span<const char> bytes(data, size * count);
  long status = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  if (transfer.request.on_body && status / 100 == 2) {
    if (!transfer.request.on_body(bytes)) {
      transfer.stopped = Error{ErrorCode::kCancelled, "the answer was not wanted any more"};
      return 0;
    }
    return bytes.size();
  }
  if (transfer.response.body.size() + bytes.size() > kMaxCollectedBytes) {
    transfer.stopped = Error{ErrorCode::kTooLarge, "the answer is larger than 64 MiB"};
    return 0;
  }
  transfer.response.body.append(bytes.data(), bytes.size());
  return bytes.size();
}

bool takes_body(const ClientRequest& request) {
  return request.method != "GET" && request.method != "HEAD" &&
         (request.method != "DELETE" || !request.body.empty());
}

void set_method_and_body(CURL* handle, const ClientRequest& request) {
  if (request.read_body) {
    // A stream cannot be sent twice, so it does not start on a connection that may be stale.
    curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, &on_read);
    curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE,
                     static_cast<curl_off_t>(std::max<std::int64_t>(request.body_bytes, -1)));
  } else if (takes_body(request)) {
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  } else if (request.method == "HEAD") {
    curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void set_rules(CURL* handle, std::chrono::milliseconds connect_timeout,
               std::chrono::milliseconds timeout) {
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // The key is for the controller: no proxy of the environment, no other place it points to.
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(handle, CURLOPT_PROXY, "");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);  // a stream may be silent for long
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 256 * 1024L);
  curl_easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, 256 * 1024L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_timeout.count()));
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
}

HeaderList header_list(const ClientRequest& request, const std::string& key) {
  HeaderList list;
  const auto append = [&list](const std::string& line) {
    if (auto* grown = curl_slist_append(list.get(), line.c_str())) {
      static_cast<void>(list.release());
      list.reset(grown);
    }
  };
  append("Expect:");  // never wait for a 100
  append("Accept: application/json, */*");
  append(std::string("User-Agent: sandboxkit/") + version());
  if (!key.empty()) {
    append("Authorization: Bearer " + key);
  }
  bool has_type = false;
  for (const auto& [name, value] : request.headers) {
    has_type = has_type || equal_ignoring_case(name, "content-type");
    append(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!has_type && (request.read_body || takes_body(request))) {
    append(std::string("Content-Type: ") +
           (request.read_body ? "application/octet-stream" : "application/json"));
  }
  return list;
}

Error error_of_transfer(CURL* handle, CURLcode code, const char* detail,
                        const ClientRequest& request) {
  const std::string what = *detail != '\0' ? detail : curl_easy_strerror(code);
  if (code == CURLE_OPERATION_TIMEDOUT) {
    curl_off_t connected_us = 0;
    curl_easy_getinfo(handle, CURLINFO_CONNECT_TIME_T, &connected_us);
    if (connected_us > 0) {
      return Error{ErrorCode::kDeadlineExceeded,
                   "no whole answer within " + std::to_string(request.timeout.count()) + " ms"};
    }
  }
  return Error{ErrorCode::kUnavailable, "the controller does not answer: " + what,
               "controller_unavailable"};
}

ErrorCode code_of_status(int status) {
  switch (status) {
    case 401:
      return ErrorCode::kUnauthenticated;
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kConflict;
    case 413:
    case 431:
      return ErrorCode::kTooLarge;
    case 429:
    case 507:
      return ErrorCode::kResourceExhausted;
    case 499:
      return ErrorCode::kCancelled;
    case 502:
    case 503:
      return ErrorCode::kUnavailable;
    case 504:
      return ErrorCode::kDeadlineExceeded;
    default:
      return status / 100 == 4 ? ErrorCode::kInvalidArgument : ErrorCode::kInternal;
  }
}

}  // namespace

struct Client::Impl {
  ClientConfig config;
  std::string base;
  std::mutex mutex;
  std::vector<Handle> idle;

  /// A handle keeps its connection; its options are set anew for each call.
  Handle take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) {
      return Handle(curl_easy_init());
    }
    Handle handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }
  void give_back(Handle handle) {
    const std::lock_guard lock(mutex);
    if (idle.size() < kMaxIdleHandles) {
      idle.push_back(std::move(handle));
    }
  }
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::create(ClientConfig config) {
  if (!start_curl_once()) {
    return Error{ErrorCode::kInternal, "libcurl does not start"};
  }
  auto base = base_of(config.url);
  if (!base) {
    return base.error();
  }
  if (!is_one_line(config.key)) {
    return invalid("the key has a line break");
  }
  auto impl = std::make_unique<Impl>();
  impl->config = std::move(config);
  impl->base = std::move(*base);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Result<ClientResponse> Client::call(const ClientRequest& request) {
  if (auto status = check(request); !status) {
    return status.error();
  }
  Handle handle = impl_->take();
  if (!handle) {
    return Error{ErrorCode::kInternal, "libcurl gives no handle"};
  }
  Transfer transfer{request, handle.get()};
  std::array<char, CURL_ERROR_SIZE> detail{};
  const HeaderList headers = header_list(request, impl_->config.key);
  const std::string url = impl_->base + request.target;

  curl_easy_reset(handle.get());
  set_rules(handle.get(), impl_->config.connect_timeout, request.timeout);
  set_method_and_body(handle.get(), request);
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, detail.data());
  curl_easy_setopt(handle.get(), CURLOPT_READDATA, &transfer);
  curl_easy_setopt(handle.get(), CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(handle.get(), CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &on_write);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &transfer);

  const CURLcode code = curl_easy_perform(handle.get());
  if (transfer.stopped) {
    return std::move(*transfer.stopped);
  }
  if (code != CURLE_OK) {
    return error_of_transfer(handle.get(), code, detail.data(), request);
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = static_cast<int>(status);
  impl_->give_back(std::move(handle));
  return std::move(transfer.response);
}

Error Client::error_from(const ClientResponse& response) {
  Error error{code_of_status(response.status),
              "the controller answered " + std::to_string(response.status)};
  if (const auto body = json::parse(response.body)) {
    error.message = body->text("message", error.message);
    error.reason = body->text("error");
    error.field = body->text("field");
  }
  return error;
}

std::string percent_encode(const std::string& text) { return percent_encoded(text); }

}  // namespace sandboxkit
