#include "sandboxkit/worker.h"

#include "io/fd.h"
#include "json/value.h"
#include "wire/messages.h"
#include "work/post.h"
#include "work/state_dir.h"

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

namespace sandboxkit {
namespace {

constexpr const char* kIdentityFile = "worker.json";
constexpr std::chrono::milliseconds kJoinTimeout{30'000};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "worker";
}

WorkerIdentity identity_of(wire::JoinAnswer answer) {
  return WorkerIdentity{std::move(answer.worker), std::move(answer.controller),
                        std::move(answer.workspace), std::move(answer.credential)};
}

Result<WorkerIdentity> parse_identity(const std::string& text) {
  const auto value = json::parse(text);
  auto answer =
      value ? wire::join_answer_from_json(*value) : Result<wire::JoinAnswer>(value.error());
  if (!answer) {
    return answer.error();
  }
  return identity_of(std::move(*answer));
}

}  // namespace

Result<WorkerIdentity> join_or_load(const WorkerConfig& config, const std::string& join_token,
                                    const std::string& name) {
  if (auto made = work::make_state_dir(config.state_dir); !made) {
    return made.error();
  }
  const std::string path = config.state_dir + "/" + kIdentityFile;
  const auto stored = work::read_private_file(path);
  if (!stored) {
    return stored.error();
  }
  if (*stored) {
    auto identity = parse_identity(**stored);
    if (!identity) {
      return Error{ErrorCode::kInternal,
                   "`" + path + "` cannot be read (" + identity.error().message +
                       "); remove it to join again",
                   "bad_identity"};
    }
    return identity;
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
  auto identity = parse_identity(*body);
  if (!identity) {
    return identity.error();
  }
  if (auto written = work::write_private_file(path, *body); !written) {
    return written.error();
  }
  return identity;
}

}  // namespace sandboxkit
