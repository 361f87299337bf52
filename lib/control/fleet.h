#pragma once

#include "control/context.h"
#include "net/tunnel.h"
#include "wire/trace.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::control {

/// What a worker answered to a short call over its tunnel.
struct WorkerAnswer {
  int status = 0;
  std::string body;
};

/// The workers whose tunnels stand.
///
/// Thread-safety: `call` from any thread; the rest on the loop's thread.
class Fleet {
 public:
  static constexpr std::size_t kMaxAnswerBytes = 4 << 20;

  struct Hooks {
    /// A tunnel came up; `epoch` rises with each one.
    std::function<void(const std::string& worker, std::uint64_t epoch)> on_attached;
    std::function<void(const std::string& worker, std::uint64_t epoch)> on_detached;
  };

  explicit Fleet(Context& context) : context_(context) {}
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  /// Takes a worker's connection. A tunnel of that worker that stands already is replaced.
  void attach(const std::string& worker, std::shared_ptr<io::Socket> socket,
              const std::string& early);
  /// Cuts a worker's tunnel (its credential was revoked).
  void detach(const std::string& worker);
  /// The last orders to a worker that is removed, then its tunnel is cut: once all are answered, at
  /// the latest after `kFarewell`. Any thread.
  void dismiss(const std::string& worker, std::vector<std::string> orders);
  static constexpr std::chrono::milliseconds kFarewell{10'000};
  /// Null when the worker has no tunnel.
  std::shared_ptr<net::TunnelClient> tunnel(const std::string& worker) const;
  /// The worker's inventory was settled: it may get work.
  void set_ready(const std::string& worker);
  /// GOAWAY to all; no more tunnels are taken.
  void shut_down(std::chrono::milliseconds grace);
  /// Ends what is left, while those who are told still live.
  void clear() { sessions_.clear(); }
  std::size_t size() const { return sessions_.size(); }

  struct Call {
    std::string worker;
    std::string method = "GET";
    std::string path;
    std::string body{};
    std::chrono::milliseconds timeout{10'000};
    wire::Trace trace{};  ///< Of the call that asks; the worker's events name it.
  };
  using Done = std::function<void(Result<WorkerAnswer>)>;
  /// One short exchange with a worker. `done` comes once, on the loop's thread.
  /// Errors: kUnavailable `worker_unreachable`, kDeadlineExceeded, kTooLarge.
  void call(Call call, Done done);

 private:
  struct Session {
    std::uint64_t epoch = 0;
    std::shared_ptr<net::TunnelClient> tunnel;  // Shared with the streams that run on it.
  };
  void closed(const std::string& worker, std::uint64_t epoch, const Error& why);
  void start_call(Call call, Done done);

  Context& context_;
  Hooks hooks_;
  bool stopped_ = false;
  std::uint64_t last_epoch_ = 0;
  std::map<std::string, Session> sessions_;
};

Error worker_unreachable();

}  // namespace sandboxkit::control
