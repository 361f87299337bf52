// A fleet of simulated workers on one real controller: idle tunnels, heartbeats, memory.
//
//   build/tests/bench/fleet_bench build/daemons/controller/sandboxkit-controller [WORKERS]
//   [SECONDS]
//
// Every worker joins, dials its tunnel, answers the inventory and stays. Then each sends a
// heartbeat every ten seconds on a connection of its own, as the real worker does. The peer in the
// same run is `GET /healthz` on the same controller: the cost of a connection and a request without
// any work.

#include "sandboxkit/client.h"

#include "io/event_loop.h"
#include "json/value.h"
#include "net/tunnel.h"
#include "tests/bench/bench.h"
#include "wire/messages.h"
#include "work/guest_proxy.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>

namespace {

using namespace sandboxkit;
using namespace std::chrono_literals;
using bench::give_up;
using bench::Samples;
using bench::seconds_since;

constexpr int kThreads = 16;
constexpr int kUsesOfToken = 1000;
constexpr double kHeartbeatSeconds = 10;

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The controller as a process of its own, so that its memory is its own as well.
class ControllerProcess {
 public:
  ControllerProcess(const char* binary, const std::string& folder) : folder_(folder) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string state = folder + "/state";
      const std::string port = folder + "/port";
      ::execl(binary, binary, "--state-dir", state.c_str(), "--listen", "127.0.0.1:0",
              "--port-file", port.c_str(), "--log-level", "error", "--rate-limit-per-key", "0",
              "--failed-auth-per-minute", "0", nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 3000 && read_line(folder_ + "/port").empty(); ++i) {
      std::this_thread::sleep_for(10ms);
    }
    url_ = "http://127.0.0.1:" + read_line(folder_ + "/port");
  }
  ~ControllerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ControllerProcess(const ControllerProcess&) = delete;
  ControllerProcess& operator=(const ControllerProcess&) = delete;

  const std::string& url() const { return url_; }
  std::string operator_key() const { return read_line(folder_ + "/state/operator.key"); }

  long rss_kib() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.starts_with("VmRSS:")) {
        return std::stol(line.substr(6));
      }
    }
    return 0;
  }

  double cpu_seconds() const {
    std::ifstream stat("/proc/" + std::to_string(pid_) + "/stat");
    std::string field;
    long ticks = 0;
    for (int i = 1; stat >> field && i <= 15; ++i) {
      ticks += i == 14 || i == 15 ? std::stol(field) : 0;
    }
    return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

 private:
  std::string folder_;
  std::string url_;
  pid_t pid_ = -1;
};

json::Value call(const std::string& url, const std::string& key, const std::string& method,
                 const std::string& target, const std::string& body) {
  auto client = Client::create({url, key});
  if (!client) {
    give_up("client");
  }
  ClientRequest request{method, target};
  request.body = body;
  const auto answer = (*client)->call(request);
  if (!answer || answer->status >= 300) {
    give_up(
        (method + " " + target + ": " + (answer ? answer->body : answer.error().message)).c_str());
  }
  auto value = json::parse(answer->body);
  return value ? std::move(*value) : json::Value();
}

wire::WorkerFacts facts() {
  wire::WorkerFacts facts{DriverCapabilities{.engine = "simulated"}};
  facts.driver.capabilities = {"egress"};
  facts.driver.runtimes = {"runc"};
  facts.driver.arch = "amd64";
  facts.driver.cpu_cores = 8;
  facts.driver.memory_mb = 16384;
  facts.driver.images = {"sandboxkit/base"};
  facts.max_sandboxes = 100;
  facts.max_starting = 4;
  return facts;
}

template <typename Body>
void in_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  std::atomic<int> next{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < count; i = next++) {
        body(i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

std::vector<std::string> join_all(const ControllerProcess& controller, int workers) {
  std::vector<std::string> tokens;
  for (int made = 0; made < workers; made += kUsesOfToken) {
    tokens.push_back(call(controller.url(), controller.operator_key(), "POST", "/v1/join-tokens",
                          R"({"workspace": "", "max_uses": 1000})")
                         .text("token"));
  }
  std::vector<std::string> credentials(static_cast<std::size_t>(workers));
  in_threads(workers, [&](int i) {
    const auto body =
        json::dump(wire::to_json(wire::JoinRequest{"worker-" + std::to_string(i), facts()}));
    credentials[static_cast<std::size_t>(i)] =
        call(controller.url(), tokens[static_cast<std::size_t>(i / kUsesOfToken)], "POST",
             "/v1/worker/join", body)
            .text("credential");
  });
  return credentials;
}

/// The workers' ends of all tunnels, on one thread.
class Tunnels {
 public:
  Tunnels(const std::string& url, const std::vector<std::string>& credentials)
      : servers_(credentials.size()), thread_([this] { loop_.run(); }) {
    for (std::size_t i = 0; i < credentials.size(); ++i) {
      // A few hundred dials at a time, as a fleet with jitter does.
      while (asked_ - up_ > 256) {
        std::this_thread::sleep_for(1ms);
      }
      ++asked_;
      loop_.post([this, url, credential = credentials[i], i] { dial(url, credential, i); });
    }
    while (settled_ < credentials.size()) {
      std::this_thread::sleep_for(5ms);
    }
  }
  ~Tunnels() {
    loop_.post([this] { servers_.clear(); });
    loop_.stop();
    thread_.join();
  }

 private:
  void dial(const std::string& url, const std::string& credential, std::size_t i) {
    net::dial_tunnel(loop_, {url, credential},
                     [this, i](Result<std::shared_ptr<io::Socket>> socket, std::string early) {
                       if (!socket) {
                         give_up(socket.error().message.c_str());
                       }
                       ++up_;
                       servers_[i] = net::TunnelServer::start(
                           loop_, std::move(*socket), early, {},
                           [this](const std::shared_ptr<net::TunnelExchange>& exchange) {
                             ++settled_;
                             work::respond_json(*exchange, 200, R"({"sandboxes":[]})");
                           },
                           [](const Error& error) { give_up(error.message.c_str()); });
                     });
  }

  io::EventLoop loop_;
  std::vector<std::shared_ptr<net::TunnelServer>> servers_;
  std::atomic<std::size_t> asked_{0};
  std::atomic<std::size_t> up_{0};
  std::atomic<std::size_t> settled_{0};  ///< Inventories that were asked for and answered.
  std::thread thread_;
};

/// Requests at a fixed rate on connections of their own; how long each took from its due time.
Samples load(double rate, double seconds, const std::function<void(int)>& request) {
  const int total = static_cast<int>(rate * seconds);
  std::vector<Samples> samples(kThreads);
  std::vector<std::thread> threads;
  std::atomic<int> next{0};
  const auto start = bench::Clock::now();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = next++; i < total; i = next++) {
        const auto due = start + std::chrono::duration_cast<bench::Clock::duration>(
                                     std::chrono::duration<double>(i / rate));
        std::this_thread::sleep_until(due);
        request(i);
        samples[static_cast<std::size_t>(t)].add(due);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::printf("  %d requests in %.1f s: %.0f/s\n", total, seconds_since(start),
              total / seconds_since(start));
  Samples all;
  for (Samples& each : samples) {
    all.append(each);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CONTROLLER [WORKERS] [SECONDS]\n", argv[0]);
    return 2;
  }
  const int workers = argc > 2 ? std::atoi(argv[2]) : 10'000;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 20;
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  std::string folder = "/tmp/sandboxkit-fleet-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    give_up("mkdtemp");
  }
  {
    const ControllerProcess controller(argv[1], folder);
    std::printf("controller alone: %.1f MiB\n", static_cast<double>(controller.rss_kib()) / 1024);
    auto start = bench::Clock::now();
    const auto credentials = join_all(controller, workers);
    std::printf("%d workers joined in %.1f s (%.0f/s)\n", workers, seconds_since(start),
                workers / seconds_since(start));
    start = bench::Clock::now();
    const Tunnels tunnels(controller.url(), credentials);
    std::printf("%d tunnels up and settled in %.1f s\n", workers, seconds_since(start));
    std::printf("controller with them idle: %.1f MiB (%.1f KiB a worker)\n",
                static_cast<double>(controller.rss_kib()) / 1024,
                static_cast<double>(controller.rss_kib()) / workers);

    const double rate = workers / kHeartbeatSeconds;
    const auto heartbeat = json::dump(wire::to_json(wire::Heartbeat{facts()}));
    std::printf("first heartbeats, each of which is written:\n");
    const auto beat = [&](int i) {
      call(controller.url(), credentials[static_cast<std::size_t>(i % workers)], "POST",
           "/v1/worker/heartbeat", heartbeat);
    };
    double cpu = controller.cpu_seconds();
    load(rate, kHeartbeatSeconds, beat).print("  a heartbeat");
    std::printf("  controller: %.0f us of CPU each\n",
                (controller.cpu_seconds() - cpu) / workers * 1e6);
    std::printf("heartbeats that say nothing new:\n");
    cpu = controller.cpu_seconds();
    Samples settled = load(rate, seconds, beat);
    settled.print("  a heartbeat");
    std::printf("  controller: %.0f us of CPU each, %.1f MiB\n",
                (controller.cpu_seconds() - cpu) / (rate * seconds) * 1e6,
                static_cast<double>(controller.rss_kib()) / 1024);
    std::printf("the same load of GET /healthz:\n");
    Samples peer = load(rate, kHeartbeatSeconds,
                        [&](int) { call(controller.url(), "", "GET", "/healthz", ""); });
    peer.print("  /healthz");
    std::printf("heartbeat / healthz at the median: %.2f\n", settled.median() / peer.median());
  }
  std::filesystem::remove_all(folder);
  return 0;
}
