#include "control/auth.h"

#include "base/text.h"
#include "control/audit_keeper.h"
#include "control/networks.h"
#include "control/refusals.h"
#include "control/services.h"
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

/// From when on a worker's credential may be renewed; one without an end at once, so that it gets
/// one.
WallTime half_of_life(const store::CredentialRow& row) {
  return row.expires ? row.created + (*row.expires - row.created) / 2 : row.created;
}

policy::Role role_of(const store::CredentialRow& row) {
  if (row.kind == "sk" && row.role == "owner") {
    return policy::Role::kOwner;
  }
  if (row.kind == "sk" && row.role == "member") {
    return policy::Role::kMember;
  }
  if (row.kind == "sk" && row.role == "sandbox" && !row.sandbox.empty()) {
    return policy::Role::kSandbox;
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

Admission Authenticator::admit(const wire::Headers& headers, const std::string& address,
                               Lateness lateness) {
  const std::string text = credential_text(headers);
  if (text.empty()) {
    // Nothing was tried, so nothing is counted.
    return refuse(
        unauthenticated("an API key is required; send it as `Authorization: Bearer sk_...`"));
  }
  const WallTime now = context_.clock.now();
  const auto name = store::parse_credential(text);
  if (auto excess = limits_.before_look_up(address, name ? name->id : "", now)) {
    context_.metrics.rate_limited.add();
    return refuse_excess(*excess, "too many wrong credentials came from this address");
  }
  Caller asking;
  asking.address = address;
  asking.trace = wire::trace_of(headers);
  auto caller = look_up(text, std::move(asking), lateness);
  if (!caller) {
    if (caller.error().code == ErrorCode::kUnauthenticated) {
      limits_.failed(address, now);
      context_.metrics.auth_failures.add();
    }
    return refuse(caller.error());
  }
  limits_.succeeded(caller->credential);
  if (auto excess = limits_.take(caller->credential, caller->role == policy::Role::kWorker, now)) {
    context_.metrics.rate_limited.add();
    return refuse_excess(*excess, "this credential calls too often");
  }
  return std::move(*caller);
}

bool Authenticator::counts(const store::CredentialRow& row, Lateness lateness, Caller& caller) {
  const WallTime now = context_.clock.now();
  if (row.revoked || caller.role == policy::Role::kNobody ||
      (row.kind == "jn" && row.uses_left == 0)) {
    return false;
  }
  if (row.kind == "wk" && now >= half_of_life(row)) {
    caller.renewal = Caller::Renewal::kDue;
  }
  if (row.expires && *row.expires <= now) {
    caller.renewal = Caller::Renewal::kOnly;
    return row.kind == "wk" && lateness == Lateness::kMayRenew &&
           now < *row.expires + context_.config.worker_renewal_window;
  }
  if (!in_networks(row.networks, caller.address)) {
    audit_.note(caller, policy::Action::kJoinWorker, "foreign_network");
    return false;
  }
  return true;
}

Result<Caller> Authenticator::look_up(const std::string& text, Caller caller, Lateness lateness) {
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
  if (!row || row->kind != name->kind || !store::matches_hash(text, row->secret_hash)) {
    return unknown_credential();
  }
  caller.role = role_of(*row);
  caller.tenant = row->tenant;
  caller.credential = row->id;
  caller.worker = row->worker;
  caller.sandbox = row->sandbox;
  if (!counts(*row, lateness, caller)) {
    return unknown_credential();
  }
  const WallTime now = context_.clock.now();
  if (!row->replaces.empty()) {
    note_first_use(caller, now);
  }
  note_use(*row, now);
  return caller;
}

/// The worker has the new credential, or it could not use it: the old one ends. A write that fails
/// is tried again with the next use.
void Authenticator::note_first_use(const Caller& caller, WallTime now) {
  const Status ignored = context_.store.write([&](store::Tx& tx) -> Status {
    if (auto settled = tx.settle_renewal(caller.credential, now); !settled) {
      return settled;
    }
    return tx.insert(audit_row(context_, caller, "worker.renew", caller.worker));
  });
  static_cast<void>(ignored);
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
