#include "tests/unit/control/house.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::function<void(ControllerConfig&)> with_metrics() {
  return [](ControllerConfig& config) { config.metrics_address = "127.0.0.1"; };
}

Answer monitor(const House& house, const std::string& path, const std::string& method = "GET") {
  auto client = Client::create({"http://127.0.0.1:" + std::to_string(house.metrics_port()), ""});
  REQUIRE(client);
  const auto answer = (*client)->call({method, path});
  return answer ? Answer{answer->status, {}, answer->body, answer->headers}
                : Answer{0, {}, answer.error().message};
}

bool is_name(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// The text format 0.0.4, read strictly: each family once, with HELP and TYPE before its samples.
class Samples {
 public:
  explicit Samples(const std::string& text) {
    REQUIRE(text.ends_with("\n"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      line.starts_with("#") ? take_comment(line) : take_sample(line);
    }
    CHECK(types_.size() == helps_.size());
  }
  double value(const std::string& sample) const {
    const auto found = values_.find(sample);
    return found == values_.end() ? -1 : found->second;
  }
  const std::map<std::string, double>& all() const { return values_; }

 private:
  void take_comment(const std::string& line) {
    std::istringstream words(line);
    std::string hash;
    std::string kind;
    std::string name;
    std::string rest;
    words >> hash >> kind >> name >> rest;
    REQUIRE(hash == "#");
    REQUIRE(is_name(name));
    if (kind == "HELP") {
      REQUIRE(helps_.insert(name).second);
      return;
    }
    REQUIRE(kind == "TYPE");
    const bool known = rest == "counter" || rest == "gauge" || rest == "histogram";
    REQUIRE(known);
    REQUIRE(types_.emplace(name, rest).second);
    REQUIRE(helps_.contains(name));
    current_ = name;
  }

  void take_sample(const std::string& line) {
    const auto blank = line.rfind(' ');
    REQUIRE(blank != std::string::npos);
    const std::string sample = line.substr(0, blank);
    const std::string number = line.substr(blank + 1);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    REQUIRE(*end == '\0');
    const std::string name = sample.substr(0, sample.find('{'));
    REQUIRE(is_name(name));
    const bool histogram = types_[current_] == "histogram";
    const std::set<std::string> allowed =
        histogram
            ? std::set<std::string>{current_ + "_bucket", current_ + "_sum", current_ + "_count"}
            : std::set<std::string>{current_};
    REQUIRE(allowed.contains(name));
    check_labels(sample.substr(name.size()));
    REQUIRE(value >= 0);
    REQUIRE(values_.emplace(sample, value).second);
  }

  static void check_labels(const std::string& labels) {
    if (labels.empty()) {
      return;
    }
    REQUIRE(labels.starts_with("{"));
    REQUIRE(labels.ends_with("\"}"));
    std::size_t at = 1;
    while (at < labels.size()) {
      const auto equals = labels.find("=\"", at);
      REQUIRE(equals != std::string::npos);
      REQUIRE(is_name(labels.substr(at, equals - at)));
      at = equals + 2;
      while (labels[at] != '"') {
        at += labels[at] == '\\' ? 2 : 1;
        REQUIRE(at < labels.size());
      }
      REQUIRE((labels[at + 1] == ',' || labels[at + 1] == '}'));
      at += 2;
    }
  }

  std::string current_;
  std::set<std::string> helps_;
  std::map<std::string, std::string> types_;
  std::map<std::string, double> values_;
};

}  // namespace

TEST_CASE("the metrics are well formed and count what happened") {
  const House house(with_metrics());
  const auto worker = house.worker();
  const std::string id = house.create(R"("name": "secret-name")").body.text("id");
  CHECK(house.create(R"("image": "no/such")").status == 400);  // A doubled member.
  house.call("GET", "/v1/sandboxes/" + id);
  house.call("GET", "/v1/sandboxes/inone");
  house.call("GET", "/v1/no-such-route/" + id);
  house.call("GET", "/v1/sandboxes", {}, "sk_wrong");
  const auto answer = monitor(house, "/metrics");
  REQUIRE(answer.status == 200);
  CHECK(answer.headers.at("content-type").starts_with("text/plain; version=0.0.4"));
  const Samples samples(answer.text);
  const std::string one = R"({method="GET",route="/v1/sandboxes/{id}",status=)";
  CHECK(samples.value("sandboxkit_http_requests_total" + one + "\"2xx\"}") == 1);
  CHECK(samples.value("sandboxkit_http_requests_total" + one + "\"4xx\"}") == 1);
  CHECK(samples.value(
            R"(sandboxkit_http_requests_total{method="other",route="other",status="4xx"})") == 1);
  CHECK(samples.value(R"(sandboxkit_creates_total{outcome="decided"})") == 1);
  CHECK(samples.value(R"(sandboxkit_creates_total{outcome="invalid_json"})") == 1);
  CHECK(samples.value(R"(sandboxkit_sandboxes{state="running"})") == 1);
  CHECK(samples.value(R"(sandboxkit_workers{state="ready"})") == 1);
  CHECK(samples.value("sandboxkit_tunnels") == 1);
  CHECK(samples.value("sandboxkit_auth_failures_total") == 1);
  CHECK(samples.value("sandboxkit_deliveries_sent_total") == 1);
  CHECK(samples.value("sandboxkit_deliveries_queued") == 0);
  CHECK(samples.value("sandboxkit_store_write_seconds_count") >= 4);
  CHECK(samples.value("process_resident_memory_bytes") > 1e6);
  CHECK(samples.value("process_open_fds") > 5);
  // Nothing that a tenant chose or was given.
  for (const std::string& text : {id, std::string("secret-name"), std::string("acme"), worker->id(),
                                  std::string("no-such-route")}) {
    CAPTURE(text);
    CHECK(answer.text.find(text) == std::string::npos);
  }
}

TEST_CASE("health and readiness are told without a credential, and nothing else is") {
  House house(with_metrics());
  CHECK(monitor(house, "/healthz").status == 200);
  CHECK(monitor(house, "/readyz").status == 200);
  CHECK(monitor(house, "/v1/sandboxes").status == 404);
  CHECK(monitor(house, "/metrics", "POST").status == 405);
  CHECK(house.call("GET", "/metrics").status == 404);
}

TEST_CASE("a controller that stops is alive and not ready") {
  House house([](ControllerConfig& config) {
    config.metrics_address = "127.0.0.1";
    config.shutdown_grace = std::chrono::seconds(30);
  });
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  Answer created;
  std::thread caller([&] { created = house.create(); });
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  std::thread stopper([&] { house.stop(); });
  CHECK(House::eventually([&] { return monitor(house, "/readyz").status == 503; }));
  CHECK(monitor(house, "/healthz").status == 200);
  worker->release();
  caller.join();
  stopper.join();
  CHECK(created.status == 201);
}

TEST_CASE("without an address there is no port for monitors") {
  const House house;
  CHECK(house.metrics_port() == 0);
}
