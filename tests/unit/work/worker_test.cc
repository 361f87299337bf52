#include "sandboxkit/worker.h"

#include "sandboxkit/client.h"

#include "io/acceptor.h"
#include "io/http_server.h"
#include "io/socket.h"
#include "net/tunnel.h"
#include "tests/unit/work/support.h"
#include "wire/messages.h"
#include "work/credential.h"
#include "work/uplink.h"

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

namespace sandboxkit::work {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;
using testing::FakeDriver;
using testing::id;
using testing::order;
using testing::Quiet;

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "sandboxkit-worker-XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

/// Answers joins and heartbeats, and keeps the tunnel that a worker dialled.
struct FakeController {
  io::EventLoop loop;
  std::shared_ptr<io::Acceptor> acceptor;
  std::uint16_t port = 0;
  std::shared_ptr<net::TunnelClient> tunnel;
  int tunnels = 0;
  std::string tunnel_credential;
  int joins = 0;
  std::vector<std::string> heartbeats;
  std::vector<std::string> credentials;  ///< With which they came.
  std::string next_credential;           ///< Given once.
  std::string unknown_credential;        ///< Refused.
  std::string refuse_join;

  FakeController() {
    auto listener = io::listen_tcp("127.0.0.1", 0);
    REQUIRE(listener);
    port = *io::local_port(listener->get());
    acceptor = io::Acceptor::start(loop, std::move(*listener), [this](io::Fd connection) {
      io::serve_http(loop, std::move(connection), {},
                     [this](const std::shared_ptr<io::HttpExchange>& e) { serve(e); });
    });
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port); }

  void serve(const std::shared_ptr<io::HttpExchange>& exchange) {
    const std::string& target = exchange->request().target;
    if (target == "/v1/worker/join") {
      return exchange->collect_body(100'000,
                                    [this, exchange](const std::string&) { join(*exchange); });
    }
    if (target == "/v1/worker/heartbeat") {
      return exchange->collect_body(1'000'000, [this, exchange](const std::string& body) {
        heartbeats.push_back(body);
        heartbeat(*exchange);
      });
    }
    wire::ResponseHead head;
    head.status = 101;
    head.headers.add("Connection", "Upgrade");
    head.headers.add("Upgrade", net::kTunnelProtocol);
    std::string early;
    tunnel_credential = exchange->request().headers.find("Authorization")->substr(7);
    auto socket = exchange->upgrade(head, early);
    ++tunnels;
    tunnel = net::TunnelClient::start(loop, std::move(socket), early, {}, [this](const Error&) {
      loop.post([old = std::move(tunnel)] {});
      tunnel = nullptr;
    });
  }

  void heartbeat(io::HttpExchange& exchange) {
    credentials.push_back(exchange.request().headers.find("Authorization")->substr(7));
    if (credentials.back() == unknown_credential) {
      return io::respond_error(exchange,
                               Error{ErrorCode::kUnauthenticated, "unknown", "unauthenticated"});
    }
    const wire::HeartbeatAnswer answer{50ms, std::exchange(next_credential, {})};
    io::respond_json(exchange, 200, json::dump(wire::to_json(answer)));
  }

  void join(io::HttpExchange& exchange) {
    ++joins;
    if (!refuse_join.empty()) {
      return io::respond_error(exchange,
                               Error{ErrorCode::kUnauthenticated, refuse_join, "unauthenticated"});
    }
    const wire::JoinAnswer answer{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme",
                                  "wk_secret"};
    io::respond_json(exchange, 200, json::dump(wire::to_json(answer)));
  }

  bool until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      loop.run_once(50ms);
    }
    return done();
  }

  /// One call over the tunnel: status and body.
  std::pair<int, std::string> call(const std::string& method, const std::string& path,
                                   const std::string& body) {
    std::pair<int, std::string> answer{0, ""};
    bool over = false;
    net::TunnelHandlers handlers;
    handlers.on_head = [&](int status, const wire::Headers&) { answer.first = status; };
    handlers.on_data = [&](std::string_view bytes) { answer.second += bytes; };
    handlers.on_end = [&] { over = true; };
    handlers.on_error = [&](const Error&) { over = true; };
    auto stream = tunnel->open({method, path, {}, !body.empty()}, std::move(handlers));
    REQUIRE(stream);
    if (!body.empty()) {
      (*stream)->write(body);
      (*stream)->end_body();
    }
    CHECK(until([&] { return over; }));
    return answer;
  }

  /// Sends a call whose answer nobody waits for.
  void post(const std::string& path, const std::string& body) {
    auto stream = tunnel->open({"POST", path, {}, true}, {});
    REQUIRE(stream);
    (*stream)->write(body);
    (*stream)->end_body();
  }
};

/// A worker in a thread of its own, as in the daemon.
struct RunningWorker {
  FakeDriver* driver = nullptr;
  std::unique_ptr<Worker> worker;
  std::jthread thread;

  RunningWorker(const WorkerConfig& config, const WorkerIdentity& who, Clock& clock,
                EventSink& events) {
    auto owned = std::make_unique<FakeDriver>();
    driver = owned.get();
    auto made = Worker::create(config, who, std::move(owned), clock, events);
    REQUIRE(made);
    worker = std::move(*made);
    thread = std::jthread([this] { CHECK(worker->run()); });
  }
  ~RunningWorker() { worker->stop(); }
};

TEST_CASE("a worker joins once, keeps its credential to itself, and needs no token afterwards") {
  const Folder folder;
  FakeController controller;
  WorkerConfig config{.controller_url = controller.url(), .state_dir = folder.path + "/state"};
  const auto without = join_or_load(config, "", "");
  REQUIRE_FALSE(without);
  CHECK(without.error().reason == "join_token_required");
  for (int i = 0; i < 2; ++i) {
    std::optional<Result<WorkerIdentity>> joined;
    std::jthread joiner([&] {
      auto got = join_or_load(config, i == 0 ? "jn_token" : "", "name");
      controller.loop.post([&joined, got] { joined = got; });
    });
    REQUIRE(controller.until([&] { return joined.has_value(); }));
    REQUIRE(*joined);
    CHECK((*joined)->worker.str() == "w-1");
    CHECK((*joined)->tenant == "acme");
    CHECK((*joined)->credential == "wk_secret");
  }
  CHECK(controller.joins == 1);
  const std::string file = config.state_dir + "/worker.json";
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  const auto exposed = join_or_load(config, "", "");
  REQUIRE_FALSE(exposed);
  CHECK(exposed.error().reason == "exposed_credential");
}

TEST_CASE("a refused token says what the controller said, and leaves no credential") {
  const Folder folder;
  FakeController controller;
  controller.refuse_join = "the token is used up";
  const WorkerConfig config{.controller_url = controller.url(), .state_dir = folder.path};
  std::optional<Result<WorkerIdentity>> joined;
  std::jthread joiner([&] {
    auto got = join_or_load(config, "jn_token", "name");
    controller.loop.post([&joined, got] { joined = got; });
  });
  REQUIRE(controller.until([&] { return joined.has_value(); }));
  REQUIRE_FALSE(*joined);
  CHECK(joined->error().code == ErrorCode::kUnauthenticated);
  CHECK(joined->error().message == "the token is used up");
  CHECK_FALSE(std::filesystem::exists(folder.path + "/worker.json"));
}

TEST_CASE("a worker tells monitors what it runs and whether it can be used") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  WorkerConfig config{
      .controller_url = controller.url(), .state_dir = folder.path, .heartbeat_interval = 100ms};
  config.metrics_address = "127.0.0.1";
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_secret"};
  RunningWorker worker(config, who, clock, events);
  const auto client =
      Client::create({.url = "http://127.0.0.1:" + std::to_string(worker.worker->metrics_port())});
  REQUIRE(client);
  const auto ask = [&](const std::string& path) { return (*client)->call({"GET", path}); };
  REQUIRE(controller.until([&] { return controller.tunnel != nullptr; }));
  const auto create = json::dump(wire::to_json(order(wire::DeliveryKind::kCreate, "i1", 1, clock)));
  REQUIRE(controller.call("POST", "/v1/deliveries", create).first == 200);
  REQUIRE(controller.until([&] { return !controller.heartbeats.empty(); }));
  CHECK(ask("/healthz")->status == 200);
  CHECK(ask("/readyz")->status == 200);
  const std::string text = ask("/metrics")->body;
  for (const char* line :
       {"sandboxkit_worker_sandboxes{state=\"running\"} 1\n", "sandboxkit_worker_driver_ok 1\n",
        "sandboxkit_worker_tunnel_up 1\n", "sandboxkit_worker_heartbeat_failures_total 0\n",
        "sandboxkit_worker_create_seconds_count 1\n"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
  CHECK(text.find("i1") == std::string::npos);
  CHECK(text.find("acme") == std::string::npos);
  controller.acceptor->close();
  controller.tunnel->close(0ms);
  CHECK(controller.until([&] { return ask("/readyz")->status == 503; }));
}

TEST_CASE(
    "a worker dials, serves deliveries over the tunnel, beats, and dials again when it is cut") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  const WorkerConfig config{
      .controller_url = controller.url(), .state_dir = folder.path, .heartbeat_interval = 100ms};
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_secret"};
  RunningWorker worker(config, who, clock, events);
  REQUIRE(controller.until([&] { return controller.tunnel != nullptr; }));
  const auto create = json::dump(wire::to_json(order(wire::DeliveryKind::kCreate, "i1", 1, clock)));
  const auto made = controller.call("POST", "/v1/deliveries", create);
  CHECK(made.first == 200);
  CHECK(made.second == R"({"state":"running"})");
  CHECK(controller.until([&] {
    return !controller.heartbeats.empty() &&
           controller.heartbeats.back().find("\"i1\"") != std::string::npos;
  }));
  controller.tunnel->close(0ms);
  REQUIRE(
      controller.until([&] { return controller.tunnels >= 2 && controller.tunnel != nullptr; }));
  CHECK(controller.call("POST", "/v1/deliveries", create).first == 200);
  CHECK(worker.driver->count("create i1/1") == 1);
}

TEST_CASE("a worker uses a renewed credential at once, for its heartbeat and its next tunnel") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  const WorkerConfig config{
      .controller_url = controller.url(), .state_dir = folder.path, .heartbeat_interval = 100ms};
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_first"};
  RunningWorker worker(config, who, clock, events);
  REQUIRE(controller.until([&] { return controller.tunnel != nullptr; }));
  CHECK(controller.tunnel_credential == "wk_first");
  controller.next_credential = "wk_second";
  REQUIRE(controller.until([&] {
    return !controller.credentials.empty() && controller.credentials.back() == "wk_second";
  }));
  const std::size_t beats = controller.credentials.size();
  REQUIRE(controller.until([&] { return controller.credentials.size() > beats; }));
  CHECK(controller.credentials.back() == "wk_second");
  const auto stored = read_identity(folder.path);
  REQUIRE(stored);
  CHECK((*stored)->credential == "wk_second");
  CHECK((*stored)->previous_credential == "");
  controller.tunnel->close(0ms);
  REQUIRE(
      controller.until([&] { return controller.tunnels >= 2 && controller.tunnel != nullptr; }));
  CHECK(controller.tunnel_credential == "wk_second");
}

TEST_CASE("a worker goes back to the credential before when the controller does not know the new") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  controller.unknown_credential = "wk_second";
  const WorkerConfig config{
      .controller_url = controller.url(), .state_dir = folder.path, .heartbeat_interval = 100ms};
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_second",
                           "wk_first"};
  RunningWorker worker(config, who, clock, events);
  REQUIRE(controller.until([&] {
    return !controller.credentials.empty() && controller.credentials.back() == "wk_first";
  }));
  CHECK(controller.credentials.front() == "wk_second");
}

TEST_CASE("a worker's stop leaves its sandboxes running, and the next start knows them") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  const WorkerConfig config{.controller_url = controller.url(), .state_dir = folder.path};
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_secret"};
  {
    RunningWorker worker(config, who, clock, events);
    REQUIRE(controller.until([&] { return controller.tunnel != nullptr; }));
    const auto create =
        json::dump(wire::to_json(order(wire::DeliveryKind::kCreate, "i1", 1, clock)));
    CHECK(controller.call("POST", "/v1/deliveries", create).first == 200);
    worker.worker->stop();
    worker.thread.join();
    CHECK(worker.driver->has("i1"));
    CHECK(worker.driver->count("remove i1") == 0);
  }
  // The new driver's engine is empty, so what the journal remembers is now lost.
  RunningWorker worker(config, who, clock, events);
  REQUIRE(
      controller.until([&] { return controller.tunnels >= 2 && controller.tunnel != nullptr; }));
  const auto inventory = controller.call("GET", "/v1/inventory", "");
  CHECK(inventory.first == 200);
  CHECK(inventory.second.find("\"i1\"") != std::string::npos);
  CHECK(inventory.second.find("\"lost\"") != std::string::npos);
}

// Complaint 39: the worker gives up before the server does.
TEST_CASE("a create that is under way is undone when the controller is out of reach for too long") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  WorkerConfig config{.controller_url = controller.url(), .state_dir = folder.path};
  config.start_lease = 300ms;
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_secret"};
  RunningWorker worker(config, who, clock, events);
  REQUIRE(controller.until([&] { return controller.tunnel != nullptr; }));
  worker.driver->hold_creates();
  const auto create = json::dump(wire::to_json(order(wire::DeliveryKind::kCreate, "i1", 1, clock)));
  controller.post("/v1/deliveries", create);
  REQUIRE(controller.until([&] { return worker.driver->creates_under_way() == 1; }));
  controller.acceptor->close();  // Nobody answers its dials.
  controller.tunnel->close(0ms);
  CHECK(controller.until([&] { return worker.driver->creates_under_way() == 0; }));
  CHECK_FALSE(worker.driver->has("i1"));
}

// Complaint 10: a burst breaks one engine, and nobody says so.
TEST_CASE("a worker whose driver fails says so with its heartbeats, and when it is well again") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  FakeController controller;
  WorkerConfig config{.controller_url = controller.url(), .state_dir = folder.path};
  config.reconcile_interval = 100ms;
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_secret"};
  RunningWorker worker(config, who, clock, events);
  const auto last_problem = [&] {
    const auto body = json::parse(controller.heartbeats.back());
    return body ? body->text("problem") : std::string("?");
  };
  REQUIRE(controller.until([&] { return !controller.heartbeats.empty(); }));
  CHECK(last_problem().empty());
  worker.driver->fail_probes(Error{ErrorCode::kUnavailable, "the engine does not answer"});
  CHECK(controller.until([&] { return last_problem() == "the engine does not answer"; }));
  // What it proved before stands: a passing fault is no loss of a capability.
  CHECK(controller.heartbeats.back().find("\"egress\"") != std::string::npos);
  worker.driver->fail_probes(std::nullopt);
  CHECK(controller.until([&] { return last_problem().empty(); }));
}

TEST_CASE("the waits between dials grow from 0.2 s to 15 s") {
  CHECK(Uplink::longest_wait(0) == 200ms);
  CHECK(Uplink::longest_wait(1) == 400ms);
  CHECK(Uplink::longest_wait(6) == 12'800ms);
  CHECK(Uplink::longest_wait(7) == 15'000ms);
  CHECK(Uplink::longest_wait(1'000'000) == 15'000ms);
}

TEST_CASE("a worker's configuration is checked before anything is made") {
  const Folder folder;
  FakeClock clock;
  Quiet events;
  const WorkerIdentity who{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_secret"};
  WorkerConfig config{.controller_url = "http://127.0.0.1:1", .state_dir = folder.path};
  config.max_sandboxes = 0;
  const auto made = Worker::create(config, who, std::make_unique<FakeDriver>(), clock, events);
  REQUIRE_FALSE(made);
  CHECK(made.error().field == "max_sandboxes");
  config.max_sandboxes = 1;
  config.state_dir = "relative";
  const auto relative = Worker::create(config, who, std::make_unique<FakeDriver>(), clock, events);
  REQUIRE_FALSE(relative);
  CHECK(relative.error().field == "state_dir");
}

}  // namespace
}  // namespace sandboxkit::work
