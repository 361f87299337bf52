#include "work/credential.h"

#include "json/value.h"
#include "wire/messages.h"
#include "work/state_dir.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::work {
namespace {

constexpr const char* kPrevious = "previous_credential";

std::string path_of(const std::string& state_dir) { return state_dir + "/worker.json"; }

Result<WorkerIdentity> parse_identity(const std::string& text) {
  auto value = json::parse(text);
  if (!value) {
    return value.error();
  }
  const std::string previous = value->text(kPrevious);
  json::Object answer = value->as_object() != nullptr ? *value->as_object() : json::Object();
  std::erase_if(answer, [](const auto& member) { return member.first == kPrevious; });
  auto joined = wire::join_answer_from_json(json::Value(std::move(answer)));
  if (!joined) {
    return joined.error();
  }
  return WorkerIdentity{std::move(joined->worker), std::move(joined->controller),
                        std::move(joined->workspace), std::move(joined->credential), previous};
}

}  // namespace

Result<std::optional<WorkerIdentity>> read_identity(const std::string& state_dir) {
  const std::string path = path_of(state_dir);
  const auto stored = read_private_file(path);
  if (!stored) {
    return stored.error();
  }
  if (!*stored) {
    return std::optional<WorkerIdentity>();
  }
  auto identity = parse_identity(**stored);
  if (!identity) {
    return Error{
        ErrorCode::kInternal,
        "`" + path + "` cannot be read (" + identity.error().message + "); remove it to join again",
        "bad_identity"};
  }
  return std::optional(std::move(*identity));
}

Status write_identity(const std::string& state_dir, const WorkerIdentity& identity) {
  json::Object out = *wire::to_json(wire::JoinAnswer{identity.worker, identity.controller,
                                                     identity.tenant, identity.credential})
                          .as_object();
  if (!identity.previous_credential.empty()) {
    out.emplace_back(kPrevious, identity.previous_credential);
  }
  return write_private_file(path_of(state_dir), json::dump(json::Value(std::move(out))));
}

std::string Credential::current() const {
  return identity_.with([](const auto& identity) { return identity.credential; });
}

Status Credential::keep(WorkerIdentity identity) {
  if (auto written = write_identity(state_dir_, identity); !written) {
    return written;
  }
  identity_.with([&](auto& kept) { kept = std::move(identity); });
  return {};
}

Status Credential::take(const std::string& next) {
  auto identity = identity_.with([](const auto& kept) { return kept; });
  if (next == identity.credential) {
    return {};
  }
  identity.previous_credential = std::exchange(identity.credential, next);
  return keep(std::move(identity));
}

Status Credential::worked(const std::string& used) {
  auto identity = identity_.with([](const auto& kept) { return kept; });
  if (identity.previous_credential.empty() || identity.credential != used) {
    return {};
  }
  identity.previous_credential.clear();
  return keep(std::move(identity));
}

Result<bool> Credential::refused(const std::string& used) {
  auto identity = identity_.with([](const auto& kept) { return kept; });
  if (identity.previous_credential.empty() || identity.credential != used) {
    return false;
  }
  identity.credential = std::exchange(identity.previous_credential, {});
  if (auto kept = keep(std::move(identity)); !kept) {
    return kept.error();
  }
  return true;
}

}  // namespace sandboxkit::work
