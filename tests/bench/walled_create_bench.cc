// How long until a new sandbox's first output, on this machine's engine: both structures of the
// wall, with one that waits in the pool and without. Prints ratios to a plain bridge container that
// the Engine API makes, starts and runs `echo` in.
//
// usage: walled_create_bench GUEST EGRESS IMAGE [ROUNDS [SOCKET]]   (IMAGE has /bin/echo)
#include "sandboxkit/docker_driver.h"

#include "base/random.h"
#include "docker/engine_client.h"
#include "docker/helper_call.h"
#include "docker/labels.h"
#include "tests/bench/bench.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace {

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::bench;  // NOLINT(google-build-using-namespace)
using docker::EngineCall;
using docker::EngineClient;

constexpr std::chrono::minutes kCall{2};
constexpr std::size_t kRandom = 8;

[[noreturn]] void stop_at(const char* what, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.message.c_str());
  std::exit(1);
}

template <typename T>
T need(const char* what, Result<T> result) {
  if (!result) {
    stop_at(what, result.error());
  }
  return *std::move(result);
}

void need(const char* what, const Status& status) {
  if (!status) {
    stop_at(what, status.error());
  }
}

json::Value call(EngineClient& engine, std::string method, std::string target,
                 const json::Value& body = {}) {
  EngineCall made{.method = std::move(method), .target = std::move(target)};
  made.body = body.is_null() ? "" : json::dump(body);
  return need("engine", engine.call(made));
}

/// A plain container on the default bridge to the output of its first exec.
void plain(EngineClient& engine, const std::string& image, Samples& times) {
  const auto start = bench::Clock::now();
  const std::string id =
      call(engine, "POST", "/containers/create",
           json::Object{{"Image", image}, {"Entrypoint", json::Array{"/bin/sleep", "600"}}})
          .text("Id");
  call(engine, "POST", "/containers/" + id + "/start");
  const std::string exec =
      call(engine, "POST", "/containers/" + id + "/exec",
           json::Object{{"Cmd", json::Array{"/bin/echo", "here"}}, {"AttachStdout", true}})
          .text("Id");
  const auto said = need("exec", engine.send({.method = "POST",
                                              .target = "/exec/" + exec + "/start",
                                              .body = R"({"Detach":false,"Tty":false})"}));
  if (said.body.find("here") == std::string::npos) {
    stop_at("exec", {ErrorCode::kInternal, "no output: " + said.body});
  }
  times.add(start);
  call(engine, "DELETE", "/containers/" + id + "?force=1&v=1");
}

/// One worker with one kind of wall.
class Walls {
 public:
  Walls(const char* name, const std::vector<std::string>& words, EgressStructure structure,
        std::size_t pool, EngineClient& engine)
      : name_(name), image_(words[2]), engine_(engine) {
    DockerDriverConfig config{*ControllerId::parse("bench-" + random()),
                              *WorkerId::parse("w-" + random()), "/tmp/sk-bench-" + random(),
                              words[0], words[1]};
    folder_ = config.state_dir;
    owner_ = std::make_unique<docker::Owner>(docker::Owner{config.controller, config.worker});
    config.engine_socket = words[3];
    config.egress_structure = structure;
    config.wall_pool = pool;
    config.call_timeout = kCall;
    config.create_timeout = kCall;
    pool_ = pool;
    driver_ = need("driver", DockerDriver::create(std::move(config)));
    for (const std::string& problem : need("probe", driver_->probe()).problems) {
      std::fprintf(stderr, "%s: %s\n", name, problem.c_str());
    }
  }
  ~Walls() {
    driver_.reset();
    const auto networks = engine_.get("/networks?" + docker::filters_for(*owner_));
    if (networks && networks->as_array() != nullptr) {
      for (const json::Value& network : *networks->as_array()) {
        static_cast<void>(
            engine_.send({.method = "DELETE", .target = "/networks/" + network.text("Id")}));
      }
    }
    std::filesystem::remove_all(folder_);
  }
  Walls(const Walls&) = delete;
  Walls& operator=(const Walls&) = delete;

  void once() {
    await_pool();
    SandboxOrder order{*SandboxId::parse("i000000000000" + random()), *TenantId::parse("bench"), 1,
                       SandboxSpec{image_, Egress::walled(EgressPolicy::deny_all())}};
    order.policy_hash = "bench";
    order.expires_at = WallTime(std::chrono::hours(1'000'000));
    const auto start = bench::Clock::now();
    need(name_, driver_->create(order, {}));
    const int guest = need("guest", driver_->connect_guest(order.sandbox));
    const auto said = need(
        "exec", docker::call_helper(io::Fd(guest), {"/exec", R"({"command":["/bin/echo","here"]})"},
                                    std::chrono::seconds(30)));
    if (said.body.find("here") == std::string::npos) {
      stop_at(name_, {ErrorCode::kInternal, "no output: " + said.body});
    }
    times_.add(start);
    need(name_, driver_->remove(order.sandbox));
  }

  void print(double plain_us) {
    std::printf("%-28s p50 %8.0f ms   min %8.0f ms   %.2f x plain\n", name_, times_.median() / 1000,
                times_.percentile(0) / 1000, times_.median() / plain_us);
  }

 private:
  /// A holder, or the sidecar of a wall that waits: it joins its second network last.
  bool waits(const json::Value& container) const {
    const json::Value* labels = container.find("Labels");
    const auto wall = docker::read_wall_labels(labels, *owner_);
    if (!wall) {
      return docker::has_role(labels, *owner_, docker::Role::kHolder);
    }
    const json::Value* settings = container.find("NetworkSettings");
    const json::Value* networks = settings != nullptr ? settings->find("Networks") : nullptr;
    return wall->role == docker::Role::kEgress && networks != nullptr &&
           networks->as_object() != nullptr && networks->as_object()->size() == 2;
  }

  static std::string random() { return system_random().text(kRandom, kBase36); }

  /// Waits until the pool is full, so that its refill is no part of a figure.
  void await_pool() {
    while (true) {
      std::size_t ready = 0;
      const json::Value all =
          need("engine", engine_.get("/containers/json?" + docker::filters_for(*owner_)));
      for (const json::Value& entry : *all.as_array()) {
        ready += waits(entry) ? 1 : 0;
      }
      if (ready >= pool_) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  const char* name_;
  const std::string image_;
  EngineClient& engine_;
  std::string folder_;
  std::unique_ptr<docker::Owner> owner_;
  std::size_t pool_ = 0;
  std::unique_ptr<DockerDriver> driver_;
  Samples times_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: walled_create_bench GUEST EGRESS IMAGE [ROUNDS [SOCKET]]\n", stderr);
    return 2;
  }
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 9;
  const std::vector<std::string> words{argv[1], argv[2], argv[3],
                                       argc > 5 ? argv[5] : "/var/run/docker.sock"};
  const auto engine = need("engine", EngineClient::connect(words[3], kCall));
  Walls pooled("isolated-ns, pool of 1", words, EgressStructure::kIsolatedNs, 1, *engine);
  Walls alone("isolated-ns, no pool", words, EgressStructure::kIsolatedNs, 0, *engine);
  Walls net_pooled("internal-net, pool of 1", words, EgressStructure::kInternalNet, 1, *engine);
  Walls net("internal-net, no pool", words, EgressStructure::kInternalNet, 0, *engine);
  Samples plain_times;
  // One of each in turn: what else the machine does hits all of them.
  for (int i = 0; i < rounds; ++i) {
    plain(*engine, words[2], plain_times);
    pooled.once();
    alone.once();
    net_pooled.once();
    net.once();
  }
  const double base = plain_times.median();
  std::printf("create to first output, %d rounds, engine %s\n", rounds,
              engine->version().version.c_str());
  std::printf("%-28s p50 %8.0f ms   min %8.0f ms\n", "plain, bridge, engine's exec", base / 1000,
              plain_times.percentile(0) / 1000);
  pooled.print(base);
  alone.print(base);
  net_pooled.print(base);
  net.print(base);
  return 0;
}
