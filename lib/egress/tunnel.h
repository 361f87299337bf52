#pragma once

#include "egress/pipe_pool.h"
#include "io/event_loop.h"
#include "io/fd.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// What the tunnels of one proxy share, so that an idle one has next to nothing of its own.
struct TunnelStock {
  static constexpr std::size_t kCopyBytes = 64 * 1024;
  PipePool pipes{};
  std::unique_ptr<char[]> buffer = std::make_unique<char[]>(kCopyBytes);
  /// Bytes that the sandbox may still send and receive, of all of its connections together.
  std::uint64_t bytes_left = std::numeric_limits<std::uint64_t>::max();
};

/// Passes bytes both ways until both ends are done, with back-pressure and half-close kept: an EOF
/// of one end is passed on and the other direction goes on. An end that breaks closes the other,
/// which still gets what was read for it.
///
/// A direction copies at first; one that carries much gets a pipe and moves its bytes with splice,
/// as long as it does. Either way it reads again only when what it read before is written, so a
/// reader that does not read pins at most `TunnelStock::kCopyBytes` or one pipe.
/// Thread-safety: the loop's thread. The process ignores SIGPIPE: splice cannot be told to.
class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  struct Ends {
    io::Fd client;
    io::Fd upstream;
    std::string owed_up{};       ///< For the upstream, and in front of all that is read.
    std::string owed_down{};     ///< For the client, likewise.
    std::string early_up{};      ///< Read from the client already.
    std::string early_down{};    ///< Read from the upstream already.
    std::uint64_t bytes_up = 0;  ///< Passed on before the tunnel stood.
    std::uint64_t bytes_down = 0;
    /// Is shown the first bytes that the client sends, once, before they are passed on.
    std::function<void(std::string_view)> on_first_up{};
  };

  /// The descriptors are non-blocking. `on_done` comes once, from the loop, unless `close` was
  /// called. Ownership: borrows the loop and the stock.
  static std::shared_ptr<Tunnel> start(io::EventLoop& loop, TunnelStock& stock, Ends ends,
                                       std::function<void()> on_done);
  ~Tunnel();

  void close();
  /// Gives back what only a busy tunnel needs.
  void rest(std::chrono::steady_clock::time_point now);

  std::uint64_t bytes_up() const { return flows_[kUp].bytes; }
  std::uint64_t bytes_down() const { return flows_[kDown].bytes; }
  std::chrono::steady_clock::time_point last_activity() const { return last_activity_; }

 private:
  static constexpr std::size_t kUp = 0;    // from the client (0) to the upstream (1)
  static constexpr std::size_t kDown = 1;  // and back

  struct End {
    io::Fd fd{};
    bool watched = false;
    std::uint32_t interest = 0;
  };
  struct Flow {
    std::string pending{};  // read and not written yet
    std::size_t written = 0;
    std::optional<Pipe> pipe{};
    std::size_t in_pipe = 0;
    int full_reads = 0;     // in a row
    int small_moves = 0;    // in a row, with a pipe
    bool eof = false;       // of the end that it reads from
    bool finished = false;  // nothing flows any more
    std::uint64_t bytes = 0;
    bool holds() const { return written < pending.size() || in_pipe > 0; }
  };
  enum class Moved : std::uint8_t { kSome, kNone, kBroken };

  Tunnel(io::EventLoop& loop, TunnelStock& stock, Ends ends, std::function<void()> on_done);

  void on_events(std::size_t end, std::uint32_t events);
  /// Moves what can be moved; false when an end broke and the tunnel is over.
  bool run(std::size_t flow);
  Moved copy(std::size_t flow);
  Moved splice_in(std::size_t flow);
  /// kSome when nothing is in hand any more.
  Moved drain(std::size_t flow);
  Moved write_out(std::size_t flow, std::string_view bytes, std::size_t& written);
  void count(std::size_t flow, std::size_t bytes);
  void stop_writing(std::size_t flow);
  void take_pipe(std::size_t flow);
  void return_pipe(Flow& flow);
  void watch(std::size_t end, bool is_gone);
  void show_first_up(std::string_view bytes);
  /// Over: whoever still has bytes to get, gets them.
  void end();
  void let_go(std::size_t end);
  void release_all();

  io::EventLoop& loop_;
  TunnelStock& stock_;
  std::array<End, 2> ends_;    // the client, the upstream
  std::array<Flow, 2> flows_;  // `i` reads from end `i` and writes to the other one
  std::function<void(std::string_view)> on_first_up_;
  std::function<void()> on_done_;
  std::chrono::steady_clock::time_point last_activity_ = std::chrono::steady_clock::now();
};

}  // namespace sandboxkit::egress
