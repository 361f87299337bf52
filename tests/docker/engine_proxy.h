#pragma once

#include "io/fd.h"

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace sandboxkit::test {

/// What happens to one request on its way to the engine.
enum class Fate {
  kPass,
  kLoseRequest,  ///< The connection breaks before the engine hears of it.
  kLoseAnswer,   ///< The engine does it, and the connection breaks before the answer.
  kRefuse,       ///< Answered 500 without asking the engine.
};

/// Stands between a driver and the engine and decides about each request. For faults.
class EngineProxy {
 public:
  /// `judge` gets `POST /v1.41/networks/create` and so on; called from any thread.
  using Judge = std::function<Fate(const std::string& request)>;

  EngineProxy(const std::string& socket_path, const std::string& engine_socket, Judge judge);
  ~EngineProxy();

  /// Breaks every connection; new ones are refused until it is opened again.
  void shut();
  void open();

 private:
  void accept_all();
  void serve(io::Fd client);

  const std::string engine_socket_;
  const Judge judge_;
  io::Fd listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> shut_ = false;
  std::mutex mutex_;
  std::set<int> live_;  ///< Descriptors of both sides, to break them.
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace sandboxkit::test
