#include "tests/unit/control/fake_worker.h"

#include "sandboxkit/client.h"

#include "io/http_server.h"

#include <chrono>
#include <future>
#include <utility>

namespace sandboxkit::control {
namespace {

constexpr std::chrono::seconds kPatience{10};

wire::Headers json_headers() {
  wire::Headers headers;
  headers.add("Content-Type", "application/json");
  return headers;
}

}  // namespace

template <typename F>
auto FakeWorker::locked(F&& body) const {
  const std::lock_guard lock(mutex_);
  return body();
}

FakeWorker::FakeWorker(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { loop_.run(); });
}

FakeWorker::~FakeWorker() {
  run([this] {
    streams_.clear();
    held_.clear();
    held_inventories_.clear();
    server_.reset();
  });
  loop_.stop();
  thread_.join();
}

void FakeWorker::run(std::function<void()> work) {
  std::promise<void> done;
  loop_.post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

wire::WorkerFacts FakeWorker::facts() const {
  wire::WorkerFacts facts{DriverCapabilities{"fake 1"}};
  facts.driver.capabilities = options_.capabilities;
  facts.driver.runtimes = {"runc"};
  facts.driver.arch = "amd64";
  facts.driver.cpu_cores = 64;
  facts.driver.memory_mb = 256 * 1024;
  facts.max_sandboxes = options_.max_sandboxes;
  facts.max_starting = options_.max_starting;
  return facts;
}

bool FakeWorker::start() {
  auto client = Client::create({options_.url, options_.join_token});
  ClientRequest request{"POST", "/v1/worker/join"};
  request.body = json::dump(wire::to_json(wire::JoinRequest{options_.name, facts()}));
  const auto answer = (*client)->call(request);
  if (!answer || answer->status != 201) {
    return false;
  }
  auto joined = wire::join_answer_from_json(*json::parse(answer->body));
  if (!joined) {
    return false;
  }
  identity_ = std::move(*joined);
  if (heartbeat() != 200) {
    return false;
  }
  connect();
  return wait_until([this] { return connected_; });
}

int FakeWorker::heartbeat() {
  wire::Heartbeat message{facts()};
  locked([&] {
    message.facts.problem = problem_;
    for (const auto& [id, sandbox] : sandboxes_) {
      message.sandboxes.push_back({sandbox.id, sandbox.generation, sandbox.state, sandbox.expires,
                                   sandbox.reason, sandbox.structure});
    }
  });
  auto client = Client::create({options_.url, identity_->credential});
  ClientRequest request{"POST", "/v1/worker/heartbeat"};
  request.body = json::dump(wire::to_json(message));
  const auto answer = (*client)->call(request);
  return answer ? answer->status : 0;
}

bool FakeWorker::connected() const {
  return locked([&] { return connected_; });
}

void FakeWorker::offer(const std::vector<std::string>& capabilities) {
  locked([&] { options_.capabilities = capabilities; });
}

void FakeWorker::complain(const std::string& problem) {
  locked([&] { problem_ = problem; });
}

void FakeWorker::connect() {
  loop_.post([this] {
    net::dial_tunnel(loop_, {options_.url, identity_->credential},
                     [this](Result<std::shared_ptr<io::Socket>> socket, std::string early) {
                       if (!socket) {
                         return;
                       }
                       server_ = net::TunnelServer::start(
                           loop_, std::move(*socket), early, {},
                           [this](Exchange exchange) { take(exchange); },
                           [this](const Error&) {
                             locked([&] { connected_ = false; });
                             tell_changed();
                           });
                     });
  });
}

void FakeWorker::disconnect() {
  run([this] {
    server_.reset();
    locked([&] {
      connected_ = false;
      held_.clear();
      held_inventories_.clear();
      streams_.clear();
    });
  });
}

void FakeWorker::hold(wire::DeliveryKind kind) {
  locked([&] { holding_.insert(kind); });
}

void FakeWorker::hold_inventories() {
  locked([&] { holding_inventories_ = true; });
}

void FakeWorker::release() {
  run([this] {
    const auto asked = locked([&] {
      holding_inventories_ = false;
      return std::exchange(held_inventories_, {});
    });
    for (const Exchange& exchange : asked) {
      answer_inventory(exchange);
    }
    auto held = locked([&] {
      holding_.clear();
      return std::exchange(held_, {});
    });
    for (const Held& each : held) {
      perform(each.exchange, each.delivery);
    }
  });
}

void FakeWorker::refuse_creates(int status, const std::string& error, const std::string& message) {
  locked([&] { refusal_ = Refusal{status, io::error_body(status, error, message)}; });
}

void FakeWorker::end(const std::string& id, const std::string& reason) {
  locked([&] {
    sandboxes_.at(id).state = SandboxState::kStopped;
    sandboxes_.at(id).reason = reason;
  });
}

void FakeWorker::forget(const std::string& id) {
  locked([&] { sandboxes_.erase(id); });
}

void FakeWorker::cut_streams() {
  run([this] {
    for (const Exchange& stream : std::exchange(streams_, {})) {
      stream->reset();
    }
  });
}

std::optional<FakeWorker::Sandbox> FakeWorker::sandbox(const std::string& id) const {
  return locked([&] {
    const auto found = sandboxes_.find(id);
    return found == sandboxes_.end() ? std::nullopt : std::optional(found->second);
  });
}

void FakeWorker::change(const std::string& id, const std::function<void(Sandbox&)>& change) {
  locked([&] { change(sandboxes_.at(id)); });
}

bool FakeWorker::holds(const std::string& id) const {
  return locked([&] { return sandboxes_.contains(id); });
}

std::vector<std::string> FakeWorker::orders() const {
  return locked([&] { return orders_; });
}

std::vector<wire::Trace> FakeWorker::traces() const {
  return locked([&] { return traces_; });
}

std::size_t FakeWorker::held() const {
  return locked([&] { return held_.size(); });
}

std::size_t FakeWorker::gone_streams() const {
  return locked([&] { return gone_streams_; });
}

std::size_t FakeWorker::inventories() const {
  return locked([&] { return inventories_; });
}

std::vector<std::string> FakeWorker::guest_calls() const {
  return locked([&] { return guest_calls_; });
}

std::optional<WallTime> FakeWorker::expiry_of(const std::string& id) const {
  return locked([&]() -> std::optional<WallTime> {
    const auto found = sandboxes_.find(id);
    return found == sandboxes_.end() ? std::nullopt : std::optional(found->second.expires);
  });
}

void FakeWorker::tell_changed() {
  locked([&] { ++changes_; });
  changed_.notify_all();
}

bool FakeWorker::wait_until(const std::function<bool()>& fact) const {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  std::uint64_t seen = locked([&] { return changes_; });
  while (!fact()) {
    std::unique_lock lock(mutex_);
    // What changed while the fact was looked at counts as well.
    if (!changed_.wait_until(lock, limit, [&] { return changes_ != seen; })) {
      lock.unlock();
      return fact();
    }
    seen = changes_;
  }
  return true;
}

std::string FakeWorker::inventory() const {
  std::vector<SandboxReport> reports;
  for (const auto& [id, sandbox] : sandboxes_) {
    SandboxReport report{sandbox.id, sandbox.tenant};
    report.generation = sandbox.generation;
    report.state = sandbox.state;
    report.expires_at = sandbox.expires;
    report.reason = sandbox.reason;
    report.policy_hash = sandbox.policy_hash;
    report.structure = sandbox.structure;
    reports.push_back(std::move(report));
  }
  return json::dump(wire::inventory_to_json(reports));
}

void FakeWorker::take(const Exchange& exchange) {
  const net::TunnelRequest& request = exchange->request();
  if (request.path == "/v1/inventory") {
    return take_inventory(exchange);
  }
  if (request.path == "/v1/deliveries") {
    exchange->collect_body(1 << 20, [this, exchange](std::string body) {
      const auto delivery = wire::delivery_from_json(*json::parse(body));
      if (!delivery) {
        exchange->respond(400, json_headers(),
                          io::error_body(400, "invalid_argument", delivery.error().message));
        return;
      }
      take_order(exchange, *delivery);
    });
    return;
  }
  take_guest(exchange);
}

void FakeWorker::take_inventory(const Exchange& exchange) {
  const bool held = locked([&] {
    ++inventories_;
    if (holding_inventories_) {
      held_inventories_.push_back(exchange);
    }
    return holding_inventories_;
  });
  if (!held) {
    answer_inventory(exchange);
  }
  tell_changed();
}

void FakeWorker::answer_inventory(const Exchange& exchange) {
  exchange->respond(200, json_headers(), locked([&] { return inventory(); }));
  locked([&] { connected_ = true; });
  tell_changed();
}

void FakeWorker::take_order(const Exchange& exchange, const wire::Delivery& delivery) {
  const bool held = locked([&] {
    traces_.push_back(wire::trace_of(exchange->request().headers));
    orders_.push_back(std::string(wire::name_of(delivery.kind)) + " " + delivery.sandbox.str());
    if (!holding_.contains(delivery.kind)) {
      return false;
    }
    held_.push_back({exchange, delivery});
    return true;
  });
  if (!held) {
    perform(exchange, delivery);
  }
  tell_changed();
}

void FakeWorker::perform(const Exchange& exchange, const wire::Delivery& delivery) {
  const std::string id = delivery.sandbox.str();
  auto state = SandboxState::kRunning;
  std::optional<Refusal> refusal;
  locked([&] {
    switch (delivery.kind) {
      case wire::DeliveryKind::kCreate:
        refusal = refusal_;
        if (!refusal) {
          sandboxes_.insert_or_assign(
              id, Sandbox{delivery.sandbox, delivery.tenant, delivery.generation,
                          SandboxState::kRunning, delivery.expires_at, "", delivery.policy_hash,
                          delivery.spec->secrets});
        }
        return;
      case wire::DeliveryKind::kRemove:
        sandboxes_.erase(id);
        state = SandboxState::kStopped;
        return;
      case wire::DeliveryKind::kRenew:
        if (const auto found = sandboxes_.find(id);
            found != sandboxes_.end() && found->second.state == SandboxState::kRunning) {
          found->second.expires = delivery.expires_at;
        } else {
          refusal = Refusal{409, io::error_body(409, "sandbox_not_running", "it ended")};
        }
        return;
      case wire::DeliveryKind::kNarrow:
        sandboxes_.at(id).policy_hash = delivery.policy_hash;
        return;
      case wire::DeliveryKind::kLend:
        sandboxes_.at(id).secrets = delivery.secrets;
        return;
    }
  });
  if (refusal) {
    exchange->respond(refusal->status, json_headers(), refusal->body);
  } else {
    exchange->respond(200, json_headers(), json::dump(wire::delivery_answer_to_json(state)));
  }
  tell_changed();
}

/// The guest: `/exec` says what came; other paths stream back what they are sent.
void FakeWorker::take_guest(const Exchange& exchange) {
  const net::TunnelRequest& request = exchange->request();
  std::string call = request.method + " " + request.path;
  for (const auto& [name, value] : request.headers.fields()) {
    call += " " + name + "=" + value;
  }
  locked([&] { guest_calls_.push_back(call); });
  tell_changed();
  if (request.path.ends_with("/stats")) {
    return exchange->respond(200, json_headers(), json::dump(wire::to_json(SandboxStats{1.5, 7})));
  }
  if (request.path.ends_with("/denied")) {
    const std::string id = request.path.substr(14, request.path.find('/', 14) - 14);
    const auto of = sandbox(id);  // After `/v1/sandboxes/`.
    return exchange->respond(
        200, json_headers(),
        json::dump(wire::denied_to_json(of ? of->denied : std::vector<DeniedEgress>())));
  }
  if (request.path.ends_with("/exec")) {
    return exchange->collect_body(1 << 20, [exchange](const std::string& body) {
      exchange->respond(200, json_headers(), "{\"echo\":" + body + "}");
    });
  }
  locked([&] { streams_.push_back(exchange); });
  exchange->on_gone([this] {
    locked([&] { ++gone_streams_; });
    tell_changed();
  });
  exchange->begin(200, {});
  exchange->read_body([exchange](std::string_view bytes) { exchange->write(bytes); },
                      [exchange] { exchange->end(); });
}

}  // namespace sandboxkit::control
