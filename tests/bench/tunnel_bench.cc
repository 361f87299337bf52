// What the tunnel costs beside a plain TCP connection over the same loopback, in one run.

#include "io/event_loop.h"
#include "net/tunnel.h"
#include "tests/bench/bench.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace {

using namespace sandboxkit;
using namespace sandboxkit::bench;
using namespace sandboxkit::net;

constexpr int kRoundTrips = 20'000;
constexpr std::size_t kBulkBytes = std::size_t{1} << 30;
constexpr std::size_t kPieceBytes = 64 * 1024;
const std::string kPiece(kPieceBytes, 'b');  // NOLINT: a benchmark may keep a buffer

Samples raw_round_trips() {
  const auto pair = tcp_pair();
  std::thread echo([fd = pair.far] {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::recv(fd, buffer, sizeof buffer, 0)) > 0) {
      send_all(fd, buffer, static_cast<std::size_t>(got));
    }
  });
  Samples samples;
  char buffer[4096];
  const std::string ask(100, 'r');
  for (int i = 0; i < kRoundTrips; ++i) {
    const auto start = Clock::now();
    send_all(pair.near, ask.data(), ask.size());
    for (std::size_t got = 0; got < ask.size();) {
      got += static_cast<std::size_t>(::recv(pair.near, buffer, sizeof buffer, 0));
    }
    samples.add(start);
  }
  ::shutdown(pair.near, SHUT_RDWR);
  echo.join();
  ::close(pair.near);
  ::close(pair.far);
  return samples;
}

double raw_bytes_per_second() {
  const auto pair = tcp_pair();
  const auto start = Clock::now();
  std::thread writer([fd = pair.far] {
    for (std::size_t sent = 0; sent < kBulkBytes; sent += kPieceBytes) {
      send_all(fd, kPiece.data(), kPiece.size());
    }
  });
  std::string buffer(kPieceBytes, 0);
  for (std::size_t got = 0; got < kBulkBytes;) {
    const auto count = ::recv(pair.near, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
      give_up("recv");
    }
    got += static_cast<std::size_t>(count);
  }
  const double rate = static_cast<double>(kBulkBytes) / seconds_since(start);
  writer.join();
  ::close(pair.near);
  ::close(pair.far);
  return rate;
}

/// Writes `left` bytes into an answer as they are taken.
void pump(const std::shared_ptr<TunnelExchange>& exchange,
          const std::shared_ptr<std::size_t>& left) {
  while (*left > 0 && exchange->queued_bytes() < io::Socket::kHighWater) {
    *left -= kPieceBytes;
    exchange->write(kPiece);
    if (*left == 0) {
      exchange->end();
    }
  }
}

void serve(const std::shared_ptr<TunnelExchange>& exchange) {
  if (exchange->request().path != "/bulk") {
    exchange->respond(200, {}, "small");
    return;
  }
  const auto left = std::make_shared<std::size_t>(kBulkBytes);
  exchange->on_drain([exchange, left] { pump(exchange, left); });
  exchange->begin(200, {});
  pump(exchange, left);
}

/// Controller and worker, each with its loop in a thread, as in two processes.
class TunnelBench {
 public:
  explicit TunnelBench(const TunnelLimits& limits) {
    const auto pair = tcp_pair();
    worker_thread_ = std::thread([this, fd = pair.far, limits] {
      server_ = TunnelServer::start(worker_loop_, io::Socket::adopt(worker_loop_, io::Fd(fd)), "",
                                    limits, serve, {});
      worker_loop_.run();
      server_ = nullptr;
    });
    client_ =
        TunnelClient::start(loop_, io::Socket::adopt(loop_, io::Fd(pair.near)), "", limits, {});
  }
  ~TunnelBench() {
    client_ = nullptr;
    worker_loop_.stop();
    worker_thread_.join();
  }

  /// Asks again and again, `parallel` at once, until `count` answers came.
  Samples small_requests(int count, int parallel) {
    Samples samples;
    int asked = 0;
    int done = 0;
    const std::function<void()> ask = [&] {
      if (asked == count) {
        return;
      }
      ++asked;
      const auto stream = client_->open({.path = "/small"}, {.on_end = [&, start = Clock::now()] {
                                          samples.add(start);
                                          ++done;
                                          ask();
                                        }});
      if (!stream) {
        give_up("open");
      }
    };
    for (int i = 0; i < parallel; ++i) {
      ask();
    }
    while (done < count) {
      loop_.run_once(std::chrono::milliseconds(1000));
    }
    return samples;
  }

  /// `streams` at once; calls `beside` while the bytes flow.
  double bulk_bytes_per_second(int streams, const std::function<void()>& beside = {}) {
    const auto start = Clock::now();
    int ended = 0;
    std::size_t got = 0;
    for (int i = 0; i < streams; ++i) {
      const auto stream = client_->open(
          {.path = "/bulk"}, {.on_data = [&](std::string_view bytes) { got += bytes.size(); },
                              .on_end = [&] { ++ended; }});
      if (!stream) {
        give_up("open");
      }
    }
    if (beside) {
      beside();
    }
    while (ended < streams) {
      loop_.run_once(std::chrono::milliseconds(1000));
    }
    return static_cast<double>(got) / seconds_since(start);
  }

 private:
  io::EventLoop loop_;
  io::EventLoop worker_loop_;
  std::shared_ptr<TunnelServer> server_;
  std::shared_ptr<TunnelClient> client_;
  std::thread worker_thread_;
};

void bench_with(const char* name, const TunnelLimits& limits, double raw_rate) {
  TunnelBench tunnel(limits);
  constexpr double kMiB = 1024.0 * 1024.0;
  const double one = tunnel.bulk_bytes_per_second(1);
  std::printf("%-44s %8.0f MiB/s  = %.2f of raw TCP\n", name, one / kMiB, one / raw_rate);
  const double four = tunnel.bulk_bytes_per_second(4);
  std::printf("%-44s %8.0f MiB/s  = %.2f of raw TCP\n", "  four streams at once", four / kMiB,
              four / raw_rate);
  tunnel.bulk_bytes_per_second(
      1, [&] { tunnel.small_requests(500, 1).print("  a small request beside a bulk stream"); });
}

}  // namespace

int main() {
  const double raw_rate = raw_bytes_per_second();
  std::printf("%-44s %8.0f MiB/s\n", "raw TCP, one way", raw_rate / 1024 / 1024);
  auto raw = raw_round_trips();
  raw.print("raw TCP round trip");
  {
    TunnelBench tunnel({});
    tunnel.small_requests(1000, 1);
    auto small = tunnel.small_requests(kRoundTrips, 1);
    small.print("tunnel round trip");
    std::printf("%-44s %8.2f of raw TCP\n", "  p50", small.median() / raw.median());
    const auto start = Clock::now();
    tunnel.small_requests(200'000, 100).print("tunnel round trip, 100 in flight");
    std::printf("%-44s %8.0f requests/s\n", "", 200'000 / seconds_since(start));
  }
  bench_with("tunnel, one stream, 256 KiB window", {}, raw_rate);
  TunnelLimits wide;
  wide.stream_window_bytes = 8 << 20;
  wide.connection_window_bytes = 64 << 20;
  bench_with("tunnel, one stream, 8 MiB window", wide, raw_rate);
  std::printf("%-44s %8zu KiB\n", "resident memory, both ends", rss_kib());
}
