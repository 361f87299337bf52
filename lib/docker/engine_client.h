#pragma once

#include "sandboxkit/result.h"

#include "json/value.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

namespace sandboxkit::docker {

/// What an engine is and speaks.
struct EngineVersion {
  std::string version{};      ///< `20.10.24+dfsg1`
  std::string api_version{};  ///< The one that we speak with it: `1.41`.
  std::string arch{};
};

/// One call. `target` stands behind the version: `/containers/json?all=1`.
struct EngineCall {
  std::string method = "GET";
  std::string target;
  std::string body{};  ///< JSON; empty: none.
  /// 0: the client's default. A streamed call has no whole limit, only one on silence.
  std::chrono::milliseconds timeout{0};
  std::stop_token stop{};
  /// Streams a body (a tar) in place of `body`: fills the buffer, returns 0 at the end.
  std::function<Result<std::size_t>(std::span<char>)> upload{};
  /// Takes a good answer's body piece by piece; returning false ends the call with kCancelled.
  std::function<bool(std::string_view)> on_data{};
  /// Called when a good answer began.
  std::function<void()> on_begin{};
  /// The answer may be silent for as long as it likes (events).
  bool endless = false;
};

struct EngineReply {
  int status = 0;
  std::string body{};
};

/// The Docker Engine API over its unix socket.
///
/// Errors of every call: kUnavailable `engine_unavailable` when the socket is missing, refuses or
/// breaks; kDeadlineExceeded `engine_timeout`; kCancelled; else the engine's refusal with its own
/// message (404 kNotFound, 409 kConflict, 400 kInvalidArgument, ...).
/// Thread-safety: any thread; calls run side by side, each on a connection of a small pool.
class EngineClient {
 public:
  /// The oldest API that we speak: one-shot stats, CgroupnsMode, `CheckDuplicate`.
  static constexpr std::uint64_t kMinApiMinor = 41;
  static constexpr std::size_t kMaxReplyBytes = 64 << 20;
  static constexpr std::size_t kMaxIdleHandles = 8;

  /// Asks for the engine's version and refuses one that is too old (kConflict `engine_too_old`).
  static Result<std::unique_ptr<EngineClient>> connect(const std::string& socket_path,
                                                       std::chrono::milliseconds call_timeout);
  ~EngineClient();

  const EngineVersion& version() const;

  /// The answer as it came, whatever its status.
  Result<EngineReply> send(const EngineCall& call);
  /// The answer's JSON (null when it has no body); a status outside of 2xx is an error.
  Result<json::Value> call(const EngineCall& call);
  /// GET and call in short.
  Result<json::Value> get(const std::string& target);

 private:
  struct Impl;
  explicit EngineClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Picks the API version to speak with an engine from its answer to `/version`. Pure.
Result<EngineVersion> negotiate(const json::Value& answer);
/// The error that a refusal carries. Pure.
Error error_of_reply(const EngineCall& call, const EngineReply& reply);

}  // namespace sandboxkit::docker
