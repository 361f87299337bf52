#include "docker/engine_client.h"

#include "base/guarded.h"
#include "base/text.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <curl/curl.h>

namespace sandboxkit::docker {
namespace {

constexpr std::size_t kMaxErrorBytes = 400;
/// A streamed call may be silent for this long before it counts as hung.
constexpr long kStallSeconds = 300;
constexpr int kPollMs = 1000;
constexpr long kUploadBytes = 512 * 1024;

struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// A connection (kept alive inside of `multi`) and the request that runs on it.
struct Handle {
  std::unique_ptr<CURLM, MultiDeleter> multi;
  std::unique_ptr<CURL, EasyDeleter> easy;
};

/// What the callbacks of one call share.
struct Transfer {
  CURL* easy = nullptr;
  const EngineCall* call = nullptr;
  EngineReply reply{};
  bool began = false;
  bool consumer_stopped = false;
  bool too_large = false;
  std::optional<Error> upload_error{};
};

void start_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

Handle make_handle() {
  start_curl();
  return Handle{std::unique_ptr<CURLM, MultiDeleter>(curl_multi_init()),
                std::unique_ptr<CURL, EasyDeleter>(curl_easy_init())};
}

std::size_t take_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  if (transfer.call->on_data && status >= 200 && status < 300) {
    if (!transfer.call->on_data(std::string_view(data, size))) {
      transfer.consumer_stopped = true;
      return 0;
    }
    return size;
  }
  if (transfer.reply.body.size() + size > EngineClient::kMaxReplyBytes) {
    transfer.too_large = true;
    return 0;
  }
  transfer.reply.body.append(data, size);
  return size;
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size);
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  if (line == "\r\n" && status >= 200 && status < 300 && !transfer.began) {
    transfer.began = true;
    if (transfer.call->on_begin) {
      transfer.call->on_begin();
    }
  }
  return size;
}

std::size_t give_body(char* buffer, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  auto got = transfer.call->upload(std::span<char>(buffer, size));
  if (!got) {
    transfer.upload_error = got.error();
    return CURL_READFUNC_ABORT;
  }
  return *got;
}

/// Runs the prepared request; the stop token ends it at once.
CURLcode perform(const Handle& handle, const std::stop_token& stop) {
  CURLM* multi = handle.multi.get();
  curl_multi_add_handle(multi, handle.easy.get());
  CURLcode result = CURLE_ABORTED_BY_CALLBACK;
  {
    const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
    int running = 1;
    while (running > 0 && !stop.stop_requested()) {
      if (curl_multi_perform(multi, &running) != CURLM_OK) {
        break;
      }
      if (running > 0) {
        curl_multi_poll(multi, nullptr, 0, kPollMs, nullptr);
      }
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) {
        result = message->data.result;
      }
    }
  }
  curl_multi_remove_handle(multi, handle.easy.get());
  return result;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string name_of_call(const EngineCall& call) {
  return call.method + " " + std::string(path_of(call.target));
}

Error transport_error(CURLcode code, const Transfer& transfer, const std::string& peer,
                      const char* detail) {
  const EngineCall& call = *transfer.call;
  if (transfer.upload_error) {
    return *transfer.upload_error;
  }
  if (call.stop.stop_requested() || transfer.consumer_stopped) {
    return Error{ErrorCode::kCancelled, name_of_call(call) + " was cancelled"};
  }
  if (transfer.too_large) {
    return Error{ErrorCode::kTooLarge, "the answer to " + name_of_call(call) + " is larger than " +
                                           std::to_string(EngineClient::kMaxReplyBytes) + " bytes"};
  }
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return Error{ErrorCode::kDeadlineExceeded,
                 peer + " did not answer " + name_of_call(call) + " in time", "engine_timeout"};
  }
  long os_errno = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_OS_ERRNO, &os_errno);
  const std::string why = os_errno != 0 ? std::strerror(static_cast<int>(os_errno))
                          : detail[0]   ? detail
                                        : curl_easy_strerror(code);
  return Error{ErrorCode::kUnavailable, "cannot reach " + peer + ": " + why, "engine_unavailable"};
}

void set_common(CURL* easy, Transfer& transfer, char* error_text) {
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_text);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
}

/// Method and body; returns the header list, which must live as long as the request.
std::unique_ptr<curl_slist, ListDeleter> set_request(CURL* easy, Transfer& transfer) {
  const EngineCall& call = *transfer.call;
  if (call.method != "GET") {
    // On a kept connection libcurl sends a request again when no answer came: one that changes
    // something would happen twice.
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  }
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  if (call.upload) {
    headers = curl_slist_append(headers, "Content-Type: application/x-tar");
    headers = curl_slist_append(headers, "Transfer-Encoding: chunked");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
    curl_easy_setopt(easy, CURLOPT_READDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBytes);
  } else if (call.method == "POST") {
    headers = curl_slist_append(headers, "Content-Type: application/json");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
  } else if (call.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  return std::unique_ptr<curl_slist, ListDeleter>(headers);
}

}  // namespace

struct EngineClient::Impl {
  std::string socket_path;
  std::chrono::milliseconds call_timeout{};
  EngineVersion version{};
  Guarded<std::vector<Handle>> idle{};

  Handle take_handle() {
    return idle.with([](auto& handles) {
      if (handles.empty()) {
        return make_handle();
      }
      Handle handle = std::move(handles.back());
      handles.pop_back();
      return handle;
    });
  }

  void give_back(Handle handle) {
    curl_easy_reset(handle.easy.get());
    idle.with([&](auto& handles) {
      if (handles.size() < kMaxIdleHandles) {
        handles.push_back(std::move(handle));
      }
    });
  }

  std::string peer() const { return "the docker engine at " + quoted(socket_path); }

  Result<EngineReply> send(const EngineCall& call) {
    if (call.stop.stop_requested()) {
      return Error{ErrorCode::kCancelled, name_of_call(call) + " was cancelled"};
    }
    Handle handle = take_handle();
    CURL* easy = handle.easy.get();
    char error_text[CURL_ERROR_SIZE] = "";
    Transfer transfer{easy, &call};
    set_common(easy, transfer, error_text);
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, socket_path.c_str());
    const std::string prefix = version.api_version.empty() ? "" : "/v" + version.api_version;
    const std::string url = "http://docker" + prefix + call.target;
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    const auto headers = set_request(easy, transfer);
    set_limits(easy, call);
    const CURLcode code = perform(handle, call.stop);
    if (code != CURLE_OK) {
      return transport_error(code, transfer, peer(), error_text);  // Its connection goes as well.
    }
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    give_back(std::move(handle));
    return std::move(transfer.reply);
  }

  void set_limits(CURL* easy, const EngineCall& call) const {
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(call_timeout.count()));
    if (call.endless) {
      return;
    }
    if (call.upload && call.timeout.count() == 0) {
      curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
      curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
      return;
    }
    const auto limit = call.timeout.count() > 0 ? call.timeout : call_timeout;
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  }
};

EngineClient::EngineClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EngineClient::~EngineClient() = default;

Result<std::unique_ptr<EngineClient>> EngineClient::connect(
    const std::string& socket_path, std::chrono::milliseconds call_timeout) {
  auto impl = std::make_unique<Impl>();
  impl->socket_path = socket_path;
  impl->call_timeout = call_timeout;
  std::unique_ptr<EngineClient> client(new EngineClient(std::move(impl)));
  auto answer = client->get("/version");
  if (!answer) {
    return answer.error();
  }
  auto version = negotiate(*answer);
  if (!version) {
    return version.error();
  }
  client->impl_->version = *version;
  return client;
}

const EngineVersion& EngineClient::version() const { return impl_->version; }

Result<EngineReply> EngineClient::send(const EngineCall& call) { return impl_->send(call); }

Result<json::Value> EngineClient::call(const EngineCall& call) {
  auto reply = send(call);
  if (!reply) {
    return reply.error();
  }
  if (reply->status < 200 || reply->status >= 300) {
    return error_of_reply(call, *reply);
  }
  if (trim(reply->body).empty()) {
    return json::Value();
  }
  constexpr json::Limits kLimits{kMaxReplyBytes, 64, 5'000'000};
  auto value = json::parse(reply->body, kLimits);
  if (!value) {
    return Error{ErrorCode::kInternal, "the engine's answer to " + name_of_call(call) +
                                           " is no JSON: " + value.error().message};
  }
  return value;
}

Result<json::Value> EngineClient::get(const std::string& target) {
  return call(EngineCall{.target = target});
}

Result<EngineVersion> negotiate(const json::Value& answer) {
  const auto minor_of = [](std::string_view text) -> std::optional<std::uint64_t> {
    if (!text.starts_with("1.")) {
      return std::nullopt;
    }
    return parse_decimal(text.substr(2), 9999);
  };
  const std::string newest = answer.text("ApiVersion");
  const auto newest_minor = minor_of(newest);
  const auto oldest_minor = minor_of(answer.text("MinAPIVersion", "1.0"));
  if (!newest_minor || !oldest_minor) {
    return Error{ErrorCode::kInternal,
                 "what answers is no docker engine: its API version is " + quoted(newest)};
  }
  if (*newest_minor < EngineClient::kMinApiMinor) {
    return Error{ErrorCode::kConflict,
                 "the docker engine " + quoted(answer.text("Version")) + " speaks API " + newest +
                     "; 1.41 is needed: install engine 20.10 or newer",
                 "engine_too_old"};
  }
  const auto minor = std::max(*oldest_minor, EngineClient::kMinApiMinor);
  return EngineVersion{answer.text("Version"), "1." + std::to_string(minor), answer.text("Arch")};
}

Error error_of_reply(const EngineCall& call, const EngineReply& reply) {
  std::string message = "status " + std::to_string(reply.status);
  if (auto body = json::parse(reply.body); body && !body->text("message").empty()) {
    message = body->text("message");
  }
  if (message.size() > kMaxErrorBytes) {
    message.resize(kMaxErrorBytes);
  }
  std::replace_if(
      message.begin(), message.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  ErrorCode code = ErrorCode::kInternal;
  switch (reply.status) {
    case 400:
      code = ErrorCode::kInvalidArgument;
      break;
    case 403:
      code = ErrorCode::kConflict;
      break;  // The engine says so for a subnet that overlaps.
    case 404:
      code = ErrorCode::kNotFound;
      break;
    case 409:
      code = ErrorCode::kConflict;
      break;
    case 503:
      code = ErrorCode::kUnavailable;
      break;
    default:
      break;
  }
  return Error{code, "the engine refused " + name_of_call(call) + ": " + message};
}

}  // namespace sandboxkit::docker
