#pragma once

#include "control/route_table.h"
#include "control/services.h"
#include "io/http_server.h"
#include "net/api_server.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sandboxkit::control {

/// The stream routes: exec, files, rpc, tcp, what walls deny, and the workers' tunnels. Who calls
/// is found out on the pool's threads; bytes flow in the event loop. Thread-safety: the loop's
/// thread.
class Gateway {
 public:
  /// Streams that one sandbox may have open at once.
  static constexpr std::size_t kMaxStreamsPerSandbox = 256;

  explicit Gateway(Services& services) : services_(services) {}

  /// Takes the exchange when its path is a stream route's, whatever the method.
  bool take(const std::shared_ptr<io::HttpExchange>& exchange, const std::string& remote);
  std::size_t open_streams() const { return open_streams_; }
  /// Streams that are open, and requests whose caller is being looked up.
  std::size_t under_way() const { return waiting_.size() + open_streams_; }
  /// Streams that would go on for ever end by themselves from now on.
  void drain() { *draining_ = true; }
  /// Answers what has not begun yet with 503.
  void shut_down();

 private:
  /// What a request asks for, copied from its head for the pool's threads.
  struct Question {
    StreamMatch match;
    std::string method;
    std::string query_text;
    std::vector<std::pair<std::string, std::string>> query;
    wire::Headers headers;
    std::string remote;
  };
  /// What was found: a refusal, a sandbox's place, or the worker that dialled.
  struct Finding {
    std::optional<net::ApiResponse> refusal;
    std::string worker{};
    std::string sandbox{};
    std::int64_t generation = 0;
  };

  Finding look_up(const Question& question);
  Finding look_up_worker(const Question& question, const Caller& caller);
  Finding look_up_sandbox(const Question& question, const Caller& caller);
  void go_on(std::uint64_t id, const Question& question, const Finding& finding);
  void open_tunnel(io::HttpExchange& exchange, const std::string& worker);
  void open_stream(const std::shared_ptr<io::HttpExchange>& exchange, const Question& question,
                   const Finding& finding);

  Services& services_;
  bool stopped_ = false;
  const std::shared_ptr<bool> draining_ = std::make_shared<bool>(false);  // Shared with streams.
  std::uint64_t last_id_ = 0;
  /// Exchanges whose caller is being looked up. They stay here, so that no other thread ever holds
  /// (and could end) one.
  std::map<std::uint64_t, std::shared_ptr<io::HttpExchange>> waiting_;
  std::map<std::string, std::size_t> streams_;
  std::size_t open_streams_ = 0;
};

}  // namespace sandboxkit::control
