// Requests per second of a short API call through the front, alone and beside idle connections.

#include "io/event_loop.h"
#include "net/front.h"
#include "tests/bench/bench.h"

#include <atomic>
#include <future>
#include <memory>
#include <string_view>
#include <thread>

namespace {

using namespace sandboxkit;
using namespace sandboxkit::bench;
using namespace sandboxkit::net;

constexpr int kClients = 8;
constexpr int kIdle = 5000;
constexpr std::size_t kApiThreads = 4;
constexpr auto kDuration = std::chrono::seconds(3);

/// One request after the other over a kept connection, until `stop`.
void ask(std::uint16_t port, std::string_view target, const std::atomic<bool>& stop,
         std::atomic<long>& count, Samples& samples) {
  const int fd = connect_loopback(port);
  const std::string request = "GET " + std::string(target) + " HTTP/1.1\r\nHost: bench\r\n\r\n";
  char buffer[4096];
  while (!stop) {
    const auto start = Clock::now();
    send_all(fd, request.data(), request.size());
    std::string answer;
    while (!answer.ends_with("}")) {
      const auto got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) {
        give_up("recv");
      }
      answer.append(buffer, static_cast<std::size_t>(got));
    }
    samples.add(start);
    ++count;
  }
  ::close(fd);
}

/// The median latency: on a busy machine a steadier figure than the rate.
double median_of_requests(const char* name, std::uint16_t port, std::string_view target,
                          int clients) {
  std::atomic<bool> stop{false};
  std::atomic<long> count{0};
  std::vector<Samples> samples(static_cast<std::size_t>(clients));
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (auto& own : samples) {
    threads.emplace_back([&] { ask(port, target, stop, count, own); });
  }
  std::this_thread::sleep_for(kDuration);
  stop = true;
  for (auto& thread : threads) {
    thread.join();
  }
  const double rate = static_cast<double>(count) / seconds_since(start);
  std::printf("%-44s %8.0f requests/s   p50 %7.1f us   p99 %8.1f us\n", name, rate,
              samples[0].median(), samples[0].percentile(0.99));
  return samples[0].median();
}

/// Connections that have asked once and wait now, as keep-alive clients do.
std::vector<int> idle_connections(std::uint16_t port) {
  std::vector<int> idle;
  const std::string request = "GET /loop HTTP/1.1\r\nHost: bench\r\n\r\n";
  char buffer[4096];
  for (int i = 0; i < kIdle; ++i) {
    idle.push_back(connect_loopback(port));
    send_all(idle.back(), request.data(), request.size());
    if (::recv(idle.back(), buffer, sizeof buffer, 0) <= 0) {
      give_up("recv");
    }
  }
  return idle;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main() {
  raise_descriptor_limit();
  io::EventLoop loop;
  ApiServer api;
  // As many routes as the real API has, so that the look-up costs what it costs.
  for (int i = 0; i < 30; ++i) {
    api.route("GET", "/v1/things" + std::to_string(i) + "/{id}/part",
              [](const auto&, const auto&) {});
  }
  api.route("GET", "/v1/noop/{id}", [](const ApiRequest&, const ApiResponder& respond) {
    respond(json_response(200, "{}"));
  });
  api.start(kApiThreads, 1024);
  auto front = Front::listen(loop, {}, api, [](const auto& exchange, const std::string&) {
    if (exchange->request().target != "/loop") {
      return false;
    }
    io::respond_json(*exchange, 200, "{}");
    return true;
  });
  if (!front) {
    give_up(front.error().message.c_str());
  }
  const auto port = (*front)->port();
  std::thread server([&] { loop.run(); });

  const double in_loop =
      median_of_requests("answered in the loop, 8 clients", port, "/loop", kClients);
  const double alone = median_of_requests("API route, 8 clients", port, "/v1/noop/i1", kClients);
  std::printf("%-44s %8.2f\n", "  p50 beside the answer in the loop", alone / in_loop);
  median_of_requests("API route, 1 client", port, "/v1/noop/i1", 1);

  const auto rss_before = rss_kib();
  const auto idle = idle_connections(port);
  std::printf("%-44s %8zu KiB (%.1f KiB a connection, both ends)\n",
              "5000 idle connections: memory", rss_kib() - rss_before,
              static_cast<double>(rss_kib() - rss_before) / kIdle);
  const double cpu_before = cpu_seconds();
  std::this_thread::sleep_for(kDuration);
  std::printf("%-44s %8.2f %% of a core\n", "  at rest",
              (cpu_seconds() - cpu_before) / static_cast<double>(kDuration.count()) * 100);
  const double beside =
      median_of_requests("API route, 8 clients, beside 5000 idle", port, "/v1/noop/i1", kClients);
  std::printf("%-44s %8.2f\n", "  p50 beside the same alone", beside / alone);
  std::printf("%-44s %8zu KiB\n", "resident memory", rss_kib());
  for (const int fd : idle) {
    ::close(fd);
  }
  api.stop();
  loop.stop();
  server.join();
}
