#pragma once

#include "sandboxkit/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace sandboxkit {

struct ClientConfig {
  /// `http://host:port` of the controller.
  std::string url;
  /// `sk_...` or `op_...`; sent as a bearer token to that url alone.
  std::string key{};
  std::chrono::milliseconds connect_timeout{10'000};
};

struct ClientRequest {
  std::string method = "GET";
  /// Path and query, percent-encoded by the caller: `/v1/sandboxes?limit=10`.
  std::string target;
  std::string body{};
  std::map<std::string, std::string> headers{};
  /// 0: no limit on the whole call.
  std::chrono::milliseconds timeout{120'000};
  /// Streams a body of any size in place of `body`: fills the buffer, returns 0 at the end.
  std::function<Result<std::size_t>(std::span<char>)> read_body{};
  /// Length of the streamed body; negative: unknown (chunked).
  std::int64_t body_bytes = -1;
  /// Takes the answer's body piece by piece when the status is 2xx; returning false ends the call
  /// with kCancelled. Without it the body is collected (at most 64 MiB).
  std::function<bool(std::span<const char>)> on_body{};
};

struct ClientResponse {
  int status = 0;
  std::map<std::string, std::string> headers{};  ///< Names in lower case.
  std::string body{};
};

/// A client of the controller's API: what the `sandboxkit` command and the bindings use.
///
/// An answer outside of 2xx is no error here; `error_from` reads it.
/// Thread-safety: any thread; calls run side by side.
class SANDBOXKIT_API Client {
 public:
  /// Errors: kInvalidArgument for a bad url.
  static Result<std::unique_ptr<Client>> create(ClientConfig config);
  ~Client();

  /// Errors: kUnavailable when the controller does not answer; kDeadlineExceeded; kCancelled.
  Result<ClientResponse> call(const ClientRequest& request);

  /// The error that a refused call carries: code from the status, reason, message and field from
  /// the body.
  static Error error_from(const ClientResponse& response);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// `text` with everything but unreserved characters percent-encoded: for a path segment or a query
/// value.
SANDBOXKIT_API std::string percent_encode(const std::string& text);

}  // namespace sandboxkit
