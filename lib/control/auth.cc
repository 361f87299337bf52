#include "control/auth.h"

#include "base/text.h"
#include "control/refusals.h"
#include "store/credentials.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace sandboxkit::control {
namespace {

constexpr std::chrono::seconds kNoteInterval{60};
constexpr std::size_t kMaxNoted = 10'000;
constexpr std::string_view kBearer = "bearer ";

Error unauthenticated(const char* message) {
  return Error{ErrorCode::kUnauthenticated, message, "unauthenticated"};
}

Error unknown_credential() {
  return unauthenticated("the credential is unknown, expired or revoked");
}

/// Says when to come back, and which setting it was.
net::ApiResponse refuse_excess(const Limits::Excess& excess, const std::string& what) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(excess.wait).count();
  auto refusal = refuse("rate_limited", what + "; try again later", {{"setting", excess.setting}});
  refusal.headers.add("Retry-After", std::to_string(std::max<std::int64_t>(seconds, 1)));
  return refusal;
}

policy::Role role_of(const store::CredentialRow& row) {
  if (row.kind == "sk" && row.role == "owner") {
    return policy::Role::kOwner;
  }
  if (row.kind == "sk" && row.role == "member") {
    return policy::Role::kMember;
  }
  if (row.kind == "op") {
    return policy::Role::kOperator;
  }
  if (row.kind == "wk") {
    return policy::Role::kWorker;
  }
  return row.kind == "jn" ? policy::Role::kJoinToken : policy::Role::kNobody;
}

}  // namespace

std::string credential_text(const wire::Headers& headers) {
  if (headers.count("Authorization") > 1 || headers.count("X-API-Key") > 1) {
    return {};
  }
  if (const std::string* field = headers.find("Authorization")) {
    if (field->size() > kBearer.size() &&
        equal_ignoring_case(field->substr(0, kBearer.size()), kBearer)) {
      return std::string(trim(std::string_view(*field).substr(kBearer.size())));
    }
  }
  const std::string* key = headers.find("X-API-Key");
  return key == nullptr ? std::string() : std::string(trim(*key));
}

Admission Authenticator::admit(const wire::Headers& headers, const std::string& address) {
  const std::string text = credential_text(headers);
  if (text.empty()) {
    // Nothing was tried, so nothing is counted.
    return refuse(
        unauthenticated("an API key is required; send it as `Authorization: Bearer sk_...`"));
  }
  const WallTime now = context_.clock.now();
  const auto name = store::parse_credential(text);
  if (auto excess = limits_.before_look_up(address, name ? name->id : "", now)) {
    return refuse_excess(*excess, "too many wrong credentials came from this address");
  }
  auto caller = look_up(text, address);
  if (!caller) {
    if (caller.error().code == ErrorCode::kUnauthenticated) {
      limits_.failed(address, now);
    }
    return refuse(caller.error());
  }
  limits_.succeeded(caller->credential);
  if (auto excess = limits_.take(caller->credential, caller->role == policy::Role::kWorker, now)) {
    return refuse_excess(*excess, "this credential calls too often");
  }
  caller->trace = wire::trace_of(headers);
  return std::move(*caller);
}

Result<Caller> Authenticator::look_up(const std::string& text, const std::string& address) {
  const auto name = store::parse_credential(text);
  if (!name) {
    return unknown_credential();
  }
  std::optional<store::CredentialRow> row;
  const Status read = context_.store.read([&](store::Tx& tx) -> Status {
    auto found = tx.credential(name->id);
    if (!found) {
      return found.error();
    }
    row = std::move(*found);
    return {};
  });
  if (!read) {
    return read.error();
  }
  const WallTime now = context_.clock.now();
  if (!row || row->kind != name->kind || !store::matches_hash(text, row->secret_hash) ||
      row->revoked || (row->expires && *row->expires <= now) ||
      (row->kind == "jn" && row->uses_left == 0)) {
    return unknown_credential();
  }
  const policy::Role role = role_of(*row);
  if (role == policy::Role::kNobody) {
    return unknown_credential();
  }
  note_use(*row, now);
  return Caller{role, row->tenant, row->id, row->worker, address};
}

void Authenticator::note_use(const store::CredentialRow& row, WallTime now) {
  if (row.last_used && now - *row.last_used < kNoteInterval) {
    return;
  }
  const bool due = noted_.with([&](auto& noted) {
    if (noted.size() >= kMaxNoted) {
      noted.clear();
    }
    auto [place, fresh] = noted.try_emplace(row.id, now);
    if (!fresh && now - place->second < kNoteInterval) {
      return false;
    }
    place->second = now;
    return true;
  });
  if (!due) {
    return;
  }
  // Whether it is written does not matter to the call that used the credential.
  context_.pool.post([this, id = row.id, now] {
    const Status ignored =
        context_.store.write([&](store::Tx& tx) { return tx.touch_credential(id, now); });
    static_cast<void>(ignored);
  });
}

}  // namespace sandboxkit::control
