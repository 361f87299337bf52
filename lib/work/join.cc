#include "sandboxkit/worker.h"

#include "json/value.h"
#include "wire/messages.h"
#include "work/credential.h"
#include "work/post.h"
#include "work/state_dir.h"

#include <array>
#include <string>
#include <utility>

#include <unistd.h>

namespace sandboxkit {
namespace {

constexpr std::chrono::milliseconds kJoinTimeout{30'000};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "worker";
}

/// What the controller answered to a join.
Result<WorkerIdentity> identity_of(const std::string& text) {
  const auto value = json::parse(text);
  auto answer =
      value ? wire::join_answer_from_json(*value) : Result<wire::JoinAnswer>(value.error());
  if (!answer) {
    return answer.error();
  }
  return WorkerIdentity{std::move(answer->worker), std::move(answer->controller),
                        std::move(answer->workspace), std::move(answer->credential)};
}

}  // namespace

Result<WorkerIdentity> join_or_load(const WorkerConfig& config, const std::string& join_token,
                                    const std::string& name) {
  if (auto made = work::make_state_dir(config.state_dir); !made) {
    return made.error();
  }
  auto stored = work::read_identity(config.state_dir);
  if (!stored) {
    return stored.error();
  }
  if (*stored) {
    return std::move(**stored);
  }
  if (join_token.empty()) {
    return Error{ErrorCode::kUnauthenticated,
                 "this worker has not joined yet: give it a join token (--join-token, "
                 "SANDBOXKIT_JOIN_TOKEN)",
                 "join_token_required"};
  }
  wire::JoinRequest request;
  request.name = name.empty() ? host_name() : name;
  request.facts.max_sandboxes = config.max_sandboxes;
  request.facts.max_starting = config.max_starting;
  request.facts.labels = config.labels;
  const auto reply = work::post(config.controller_url, "/v1/worker/join", join_token,
                                json::dump(wire::to_json(request)), kJoinTimeout);
  if (!reply) {
    return reply.error();
  }
  const auto body = work::body_or_error(*reply);
  if (!body) {
    return body.error();
  }
  auto identity = identity_of(*body);
  if (!identity) {
    return identity.error();
  }
  if (auto written = work::write_identity(config.state_dir, *identity); !written) {
    return written.error();
  }
  return identity;
}

}  // namespace sandboxkit
