// Secrets that are lent, used by real programs in a real sandbox.
#include "base/text.h"
#include "tests/docker/house.h"
#include "tests/unit/egress/tls_peers.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)
using egress::test::TlsUpstream;

namespace {

constexpr const char* kImage = "sandboxkit/base:latest";
constexpr const char* kValue = "Bearer s3cret-of-the-owner";
constexpr std::chrono::seconds kSoon{40};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool can_run() {
  House house;
  if (programs().guest.empty() || programs().egress.empty() ||
      !house.driver().has_image(kImage).value_or(false)) {
    MESSAGE("the helpers or the image sandboxkit/base are not there: not run");
    return false;
  }
  return true;
}

/// A server that only says `fine`, and notes what it was sent.
class Api {
 public:
  std::string certify() const { return root_.certificate; }
  std::string port() const { return std::to_string(upstream_.port()); }
  /// All heads since the last call.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(heads_, {});
  }

 private:
  TlsUpstream::Answer serve(const std::string& received) {
    if (received.find("\r\n\r\n") == std::string::npos) {
      return {};
    }
    const std::lock_guard lock(mutex_);
    heads_ += received;
    return {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfine\n"};
  }

  std::mutex mutex_;
  std::string heads_;
  egress::CertifiedKey root_ = egress::test::authority_for({"api.test"});
  TlsUpstream upstream_{egress::issue_leaf(root_, "api.test").value(),
                        [this](const std::string& received) { return serve(received); }, "0.0.0.0"};
};

struct Lending {
  Api api;
  std::string ca_file = "/tmp/sk-roots-" + std::to_string(getpid()) + ".pem";
  House house;
  SandboxOrder order = house.walled({"api.test:" + api.port()});

  explicit Lending(EgressStructure structure)
      : house{{.real_helpers = true,
               .hosts = {"api.test=" + host_address()},
               .egress_ca_file = ca_file,
               .structure = structure}} {
    std::ofstream(ca_file) << api.certify();
    order.spec.image = kImage;
    order.spec.secrets = {secret(kValue)};
    REQUIRE(problem(house.driver().create(order, {})) == "");
  }
  ~Lending() { std::filesystem::remove(ca_file); }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  LentSecret secret(const char* value) const {
    return {.name = "API_KEY",
            .domain = "api.test:" + api.port(),
            .place = SecretPlace::kHeader,
            .key = "Authorization",
            .value = value};
  }
  std::string url() const { return "https://api.test:" + api.port() + "/v1"; }
  House::Output run(const std::string& script) { return house.shell(order.sandbox, script); }
  House::Output curl() {
    return run("timeout 20 curl -sS -H \"Authorization: $API_KEY\" " + url());
  }
};

constexpr EgressStructure kStructures[] = {EgressStructure::kInternalNet,
                                           EgressStructure::kIsolatedNs};

/// The proxy process of the only isolated sandbox of this house.
pid_t proxy_of(const House& house) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words(std::istreambuf_iterator<char>(file), {});
    if (has(words, "--listener-fd") && has(words, house.config().state_dir + "/")) {
      return std::stoi(entry.path().filename().string());
    }
  }
  return 0;
}

std::string files_below(const std::string& folder) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      std::ifstream file(entry.path(), std::ios::binary);
      all.append(std::istreambuf_iterator<char>(file), {});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("programs in a sandbox use a lent secret over TLS, and nothing in it holds the value") {
  if (!can_run()) {
    return;
  }
  for (const EgressStructure structure : kStructures) {
    CAPTURE((structure == EgressStructure::kIsolatedNs));
    Lending lending(structure);
    // With the variables that name our bundle, and by the image's own trust store alone.
    const std::string bare = "env -u CURL_CA_BUNDLE -u GIT_SSL_CAINFO -u NODE_EXTRA_CA_CERTS ";
    const std::string python =
        "timeout 20 python3 -c \"import urllib.request as r; print(r.urlopen('" + lending.url() +
        "').read().decode())\"";
    const std::string git = "timeout 20 git ls-remote " + lending.url() + "/repo";
    for (const std::string& command :
         {"timeout 20 curl -sS " + lending.url(), bare + "timeout 20 curl -sS " + lending.url(),
          python, git, bare + git}) {
      CAPTURE(command);
      const House::Output output = lending.run(command + " 2>&1");
      CAPTURE(output.text);
      CHECK((has(output.text, "fine") || has(command, "git ")));
      CHECK(has(lending.api.take(), std::string("Authorization: ") + kValue + "\r\n"));
    }
    CHECK(lending.curl().text == "fine\n");
    CHECK_FALSE(has(lending.api.take(), "sandboxkit-secret"));

    const std::string seen = lending
                                 .run(
                                     "env; cat /proc/1/environ; grep -rs s3cret-of /etc /run /tmp "
                                     "/home /usr/local /var; "
                                     "true")
                                 .text;
    CHECK(has(seen, "API_KEY=sandboxkit-secret-API_KEY"));
    CHECK_FALSE(has(seen, "s3cret-of"));
    for (const auto role : {docker::Role::kSandbox, docker::Role::kEgress}) {
      if (role == docker::Role::kEgress && structure == EgressStructure::kIsolatedNs) {
        continue;  // It has no container.
      }
      const json::Value object =
          lending.house.inspect(lending.house.container_id(lending.order.sandbox, role));
      CHECK_FALSE(has(json::dump(object), "s3cret-of"));
    }
    const std::string state = lending.house.config().state_dir;
    CHECK_FALSE(has(files_below(state), "s3cret-of"));
    const auto authority = state + "/sandboxes/" + lending.order.sandbox.str() + "/authority.pem";
    CHECK(std::filesystem::status(authority).permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
}

TEST_CASE("a secret is rotated while its sandbox runs, also by a worker that was restarted") {
  if (!can_run()) {
    return;
  }
  Lending lending(EgressStructure::kInternalNet);
  const auto lend = [&](const char* value) {
    const std::vector<LentSecret> secrets{lending.secret(value)};
    return problem(lending.house.driver().lend(lending.order.sandbox, secrets));
  };
  CHECK(lend("Bearer the-second-value") == "");
  CHECK(lending.curl().text == "fine\n");
  CHECK(has(lending.api.take(), "Bearer the-second-value"));

  lending.house.restart_driver();
  REQUIRE(lending.house.driver().adopt());
  CHECK(lending.curl().text == "fine\n");
  CHECK(has(lending.api.take(), "Bearer the-second-value"));
  CHECK(lend("Bearer the-third-value") == "");
  CHECK(lending.curl().text == "fine\n");
  CHECK(has(lending.api.take(), "Bearer the-third-value"));
}

TEST_CASE("an isolated sandbox is shut to a lent domain until a new worker has its secrets") {
  if (!can_run()) {
    return;
  }
  Lending lending(EgressStructure::kIsolatedNs);
  CHECK(lending.curl().text == "fine\n");
  lending.house.restart_driver();
  REQUIRE(lending.house.driver().adopt());
  lending.api.take();
  CHECK(has(lending.curl().text, "503"));
  CHECK(lending.api.take() == "");
  const std::vector<LentSecret> secrets{lending.secret("Bearer the-same-again")};
  CHECK(problem(lending.house.driver().lend(lending.order.sandbox, secrets)) == "");
  CHECK(lending.curl().text == "fine\n");
  CHECK(has(lending.api.take(), "Bearer the-same-again"));
}

TEST_CASE("a proxy that died gets its secrets again, and until then nothing passes without them") {
  if (!can_run()) {
    return;
  }
  for (const EgressStructure structure : kStructures) {
    Lending lending(structure);
    if (structure == EgressStructure::kIsolatedNs) {
      REQUIRE(kill(proxy_of(lending.house), SIGKILL) == 0);
    } else {
      const std::string sidecar =
          lending.house.container_id(lending.order.sandbox, docker::Role::kEgress);
      lending.house.meddle("POST", "/containers/" + sidecar + "/kill?signal=KILL");
      lending.house.meddle("POST", "/containers/" + sidecar + "/start");
    }
    CHECK(becomes_true([&] { return lending.curl().text == "fine\n"; }, kSoon));
    const std::string heads = lending.api.take();
    CHECK(has(heads, kValue));
    CHECK_FALSE(has(heads, "sandboxkit-secret"));
  }
}

TEST_CASE("an image without roots gets the worker's and the authority") {
  if (!can_run()) {
    return;
  }
  Api api;
  const std::string ca_file = "/tmp/sk-roots-" + std::to_string(getpid()) + ".pem";
  std::ofstream(ca_file) << api.certify();
  House house{{.real_helpers = true, .egress_ca_file = ca_file}};
  SandboxOrder order = house.walled({"api.test"});
  order.spec.secrets = {
      {.name = "K", .domain = "api.test", .key = "X-Key", .value = "s3cret-of-the-owner"}};
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const House::Output bundle =
      house.shell(order.sandbox,
                  "grep -c BEGIN /usr/local/share/sandboxkit/ca-bundle.pem; "
                  "grep -c BEGIN $NODE_EXTRA_CA_CERTS; ls /etc/ssl/certs");
  CHECK(bundle.text.starts_with("2\n1\n"));
  CHECK(has(bundle.text, ".0\n"));
  std::filesystem::remove(ca_file);
  SandboxOrder rootless = house.walled({"api.test"});
  rootless.spec.secrets = order.spec.secrets;
  CHECK(house.driver().create(rootless, {}).error().field == "egress_ca_file");
}
