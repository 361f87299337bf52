#include "cli/create.h"

#include "json/value.h"

#include <doctest/doctest.h>

using namespace sandboxkit;       // NOLINT(google-build-using-namespace)
using namespace sandboxkit::cli;  // NOLINT(google-build-using-namespace)

namespace {

std::optional<std::string> lookup(const std::string& name) {
  return name == "HOME" ? std::optional<std::string>("/root") : std::nullopt;
}

std::string body_of(const CreateOptions& options) {
  const auto body = create_body(options, lookup);
  return body ? json::dump(*body) : "refused: " + body.error().message;
}

}  // namespace

TEST_CASE("without a word about egress a sandbox may reach nothing") {
  const std::string nothing = R"({"image":"sandboxkit/base","egress":{"allowed_domains":[]}})";
  CHECK(body_of({}) == nothing);
  CHECK(body_of({.deny_all = true}) == nothing);
}

TEST_CASE("only --open makes a sandbox without a wall") {
  CHECK(body_of({.open = true}) == R"({"image":"sandboxkit/base","egress":null})");
}

TEST_CASE("--strict-tls goes with a wall") {
  CHECK(body_of({.allow = {"a.test"}, .strict_tls = true}) ==
        R"({"image":"sandboxkit/base","egress":{"allowed_domains":["a.test"],"strict_tls":true}})");
  CHECK(body_of({.strict_tls = true, .open = true}).starts_with("refused: --open"));
}

TEST_CASE("every option of create is in the body") {
  CHECK(body_of({.image = "i",
                 .name = "n",
                 .allow = {"a.test", "*.b.test:8443"},
                 .allow_networks = {"10.0.0.0/8"},
                 .cpu_cores = 1.5,
                 .memory = "2g",
                 .timeout = "10m",
                 .profile = "sudo",
                 .runtime = "runsc",
                 .persistence = "ephemeral",
                 .env = {"A=1=2", "HOME"},
                 .labels = {"zone=eu"},
                 .metadata = {"k="}}) ==
        R"({"image":"i","egress":{"allowed_domains":["a.test","*.b.test:8443"],)"
        R"("allowed_networks":["10.0.0.0/8"]},"name":"n","cpu_cores":1.5,"memory_mb":2048,)"
        R"("timeout_seconds":600,"profile":"sudo","runtime":"runsc","persistence":"ephemeral",)"
        R"("env":{"A":"1=2","HOME":"/root"},"metadata":{"k":""},"labels":{"zone":"eu"}})");
}

TEST_CASE("options that contradict each other are refused") {
  CHECK(body_of({.allow = {"a.test"}, .open = true}).starts_with("refused: --open"));
  CHECK(body_of({.deny_all = true, .open = true}).starts_with("refused: --open"));
  CHECK(body_of({.allow_networks = {"10.0.0.0/8"}, .open = true}).starts_with("refused: --open"));
  CHECK(body_of({.allow = {"a.test"}, .deny_all = true}).starts_with("refused: --deny-all"));
}

TEST_CASE("values that do not parse are refused by their option's name") {
  CHECK(body_of({.memory = "lots"}).starts_with("refused: --memory"));
  CHECK(body_of({.timeout = "soon"}).starts_with("refused: --timeout"));
  CHECK(body_of({.env = {"NOT_THERE"}}).starts_with("refused: --env"));
  CHECK(body_of({.env = {"=x"}}).starts_with("refused: --env"));
  CHECK(body_of({.env = {"A=1", "A=2"}}).starts_with("refused: --env"));
  CHECK(body_of({.labels = {"HOME"}}).starts_with("refused: --label"));
}

TEST_CASE("a sandbox's reach fits in a few words") {
  const auto words = [](const char* text) {
    const auto value = json::parse(text);
    return egress_in_words(&*value);
  };
  CHECK(egress_in_words(nullptr) == "open");
  CHECK(words("null") == "open");
  CHECK(words(R"({"allowed_domains": []})") == "nothing");
  CHECK(words(R"({"allowed_domains": ["a.test"]})") == "a.test");
  CHECK(words(R"({"allowed_domains": ["a.test"], "allowed_networks": ["10.0.0.0/8"]})") ==
        "a.test +1");
}
