#include "tests/unit/control/access_world.h"

#include <utility>

#include <doctest/doctest.h>

namespace sandboxkit::control {
namespace {

constexpr const char* kNobodysSandbox = "i00000000000000000000";
constexpr const char* kNobodysWorker = "w-000000000000";
constexpr const char* kNobodysId = "00000000";

void put(std::string& text, const std::string& from, const std::string& to) {
  if (const auto at = text.find(from); at != std::string::npos) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

AccessWorld::AccessWorld() {
  rival_key_ = house_.make_workspace("rival");
  worker_ = house_.worker();
  FakeWorker::Options options;
  options.url = house_.url();
  options.join_token = house_.join_token(rival_key_);
  rival_worker_ = std::make_unique<FakeWorker>(options);
  REQUIRE(rival_worker_->start());
  unscoped_worker_ = joined(house_.operator_key(), "worker");
  own_ = objects_of(house_.owner(), worker_->id());
  rival_ = objects_of(rival_key_, rival_worker_->id());
  other_sandbox_ = house_.create().body.text("id");

  const std::string tokens = "/v1/sandboxes/" + own_.sandbox + "/tokens";
  const std::string member = R"({"role": "member"})";
  const std::string passing =
      mint("/v1/keys", R"({"role": "owner", "ttl_seconds": 1})", house_.owner(), "key");
  const auto ended = house_.call("POST", "/v1/keys", R"({"role": "owner"})");
  REQUIRE(house_.call("DELETE", "/v1/keys/" + ended.body.text("id")).status == 204);
  house_.advance(std::chrono::seconds(2));
  using policy::Role;
  visitors_ = {
      {"nobody", Role::kNobody},
      {"owner", Role::kOwner, house_.owner()},
      {"member", Role::kMember, mint("/v1/keys", member, house_.owner(), "key")},
      {"sandbox token", Role::kSandbox, mint(tokens, "{}", house_.owner(), "token")},
      {"operator", Role::kOperator, house_.operator_key()},
      {"worker", Role::kWorker, joined(house_.owner(), "credential")},
      {"join token", Role::kJoinToken, house_.join_token("<owner>", R"({"max_uses": 1000})")},
      {"expired", Role::kNobody, passing},
      {"revoked", Role::kNobody, ended.body.text("key")},
      {"garbage", Role::kNobody, "sk_not-a-credential"},
      {"unknown", Role::kNobody, "sk_AAAAAAAA_" + std::string(38, 'B')},
      {"one character off", Role::kNobody, house_.owner() + "x"},
  };
}

std::string AccessWorld::mint(const std::string& path, const std::string& body,
                              const std::string& key, const char* member) const {
  const auto made = house_.call("POST", path, body, key);
  CAPTURE(path);
  CAPTURE(made.text);
  REQUIRE(made.status == 201);
  return made.body.text(member);
}

/// A worker without a tunnel: of the workspace of a key, or of the fleet of all.
std::string AccessWorld::joined(const std::string& key, const char* member) const {
  const bool unscoped = key == house_.operator_key();
  const std::string token = house_.join_token(key, unscoped ? R"({"workspace": ""})" : "{}");
  return mint("/v1/worker/join", "{}", token, member);
}

AccessWorld::Objects AccessWorld::objects_of(const std::string& key,
                                             const std::string& worker) const {
  Objects objects;
  objects.worker = worker;
  REQUIRE(House::eventually([&] {
    objects.sandbox = house_.create({}, key).body.text("id");
    return !objects.sandbox.empty();
  }));
  objects.token = mint("/v1/sandboxes/" + objects.sandbox + "/tokens", "{}", key, "id");
  objects.join_token = mint("/v1/join-tokens", "{}", key, "id");
  objects.key = mint("/v1/keys", R"({"role": "member"})", key, "id");
  return objects;
}

std::string AccessWorld::filled(std::string pattern, const Objects& objects) {
  put(pattern, "{token}", objects.token);
  put(pattern, "{service}", "process.Process");
  put(pattern, "{method}", "List");
  put(pattern, "{port}", "80");
  put(pattern, "{name}", "TOKEN");
  put(pattern, "{id}",
      pattern.starts_with("/v1/sandboxes")     ? objects.sandbox
      : pattern.starts_with("/v1/workers")     ? objects.worker
      : pattern.starts_with("/v1/join-tokens") ? objects.join_token
      : pattern.starts_with("/v1/keys")        ? objects.key
                                               : "acme");
  return pattern;
}

std::string AccessWorld::own(const Visit& visit, Visitor& visitor) {
  Objects objects = own_;
  const bool may =
      policy::decide(visitor.role, policy::Action::kReadAudit) == policy::Access::kAllowed;
  if (visitor.role == policy::Role::kOperator) {
    objects.worker = unscoped_worker_;
  }
  if (may && visit.pattern.ends_with("/drain")) {
    objects.worker = joined(visitor.credential, "worker");
  }
  if (visit.method != "DELETE") {
    return filled(visit.pattern, objects);
  }
  if (visit.pattern == "/v1/sandboxes/{id}") {
    objects.sandbox = house_.create().body.text("id");
    if (visitor.role == policy::Role::kSandbox) {
      visitor.credential =
          mint("/v1/sandboxes/" + objects.sandbox + "/tokens", "{}", house_.owner(), "token");
    }
  } else if (visit.pattern.ends_with("/tokens/{token}")) {
    objects.token = mint("/v1/sandboxes/" + own_.sandbox + "/tokens", "{}", house_.owner(), "id");
  } else if (may && visit.pattern.starts_with("/v1/workers")) {
    objects.worker = joined(visitor.credential, "worker");
  } else if (may && visit.pattern.starts_with("/v1/join-tokens")) {
    const bool unscoped = visitor.role == policy::Role::kOperator;
    objects.join_token =
        mint("/v1/join-tokens", unscoped ? R"({"workspace": ""})" : "{}", visitor.credential, "id");
  } else if (visit.pattern.starts_with("/v1/keys")) {
    objects.key = mint("/v1/keys", R"({"role": "member"})", house_.owner(), "id");
  }
  return filled(visit.pattern, objects);
}

std::vector<std::string> AccessWorld::foreign(const Visit& visit, const Visitor& visitor) const {
  std::vector<std::string> paths = {filled(visit.pattern, rival_)};
  if (visitor.role == policy::Role::kOperator) {
    paths.push_back(filled(visit.pattern, own_));
  }
  if (visitor.role == policy::Role::kSandbox) {
    Objects other = own_;
    other.sandbox = other_sandbox_;
    paths.push_back(filled(visit.pattern, other));
  }
  return paths;
}

std::string AccessWorld::absent(const Visit& visit) const {
  return filled(visit.pattern,
                {kNobodysSandbox, kNobodysId, kNobodysWorker, kNobodysId, kNobodysId});
}

Answer AccessWorld::call(const Visit& visit, const std::string& path, const Visitor& visitor,
                         bool upgrade) {
  std::map<std::string, std::string> headers;
  if (upgrade && visit.pattern.find("/tcp/") != std::string::npos) {
    headers = {{"Connection", "Upgrade"}, {"Upgrade", "tcp"}};
  }
  // What would go on for ever is asked for one line.
  const char* end = visit.pattern.ends_with("/stream") ? "?lines=1" : "";
  return house_.call(visit.method, path + end, visit.body, visitor.credential, std::move(headers));
}

}  // namespace sandboxkit::control
