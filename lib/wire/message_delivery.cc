#include "base/text.h"
#include "json/reader.h"
#include "wire/message_fields.h"
#include "wire/messages.h"

#include <array>
#include <cstdlib>
#include <utility>

namespace sandboxkit::wire {
namespace {

/// The spec of a create, or nullopt when it is absent or refused.
std::optional<SandboxSpec> read_spec(json::Reader& reader) {
  const json::Value* value = reader.member("spec");
  if (value == nullptr) {
    reader.refuse("spec", "is required");
    return std::nullopt;
  }
  auto spec = spec_from_json(*value);
  if (!spec) {
    Error error = spec.error();
    error.field = reader.path_of("spec") + (error.field.empty() ? "" : "." + error.field);
    reader.refuse(std::move(error));
    return std::nullopt;
  }
  return std::move(*spec);
}

void read_narrow(json::Reader& reader, Delivery& delivery) {
  delivery.policy_hash = detail::read_plain(reader, "policy_hash", detail::kMaxHashBytes);
  const json::Value* value = reader.member("egress");
  auto egress = egress_from_json(value != nullptr ? *value : json::Value(), "egress");
  if (!egress) {
    return reader.refuse(egress.error());
  }
  if (!egress->is_walled() || delivery.policy_hash.empty()) {
    return reader.refuse("egress",
                         "is required, with its `policy_hash`: a wall is never taken away");
  }
  delivery.egress = *egress->policy();
}

void read_lend(json::Reader& reader, Delivery& delivery) {
  const json::Value* value = reader.member("secrets");
  auto secrets = lent_secrets_from_json(value != nullptr ? *value : json::Value(), "secrets");
  if (!secrets) {
    return reader.refuse(secrets.error());
  }
  delivery.secrets = std::move(*secrets);
}

bool has_expiry(DeliveryKind kind) {
  return kind == DeliveryKind::kCreate || kind == DeliveryKind::kRenew;
}

void read_create(json::Reader& reader, Delivery& delivery) {
  delivery.policy_hash = detail::read_plain(reader, "policy_hash", detail::kMaxHashBytes);
  delivery.spec = read_spec(reader);
  // Two witnesses of the wall: if one was lost on the way, the sandbox must not start without it.
  if (delivery.spec && delivery.spec->egress.is_walled() == delivery.policy_hash.empty()) {
    reader.refuse("policy_hash", "does not fit the egress of the spec");
  }
}

/// The spec as a worker gets it: with the values of its secrets.
json::Value spec_for_worker(const SandboxSpec& spec) {
  json::Value written = spec_to_json(spec);
  if (spec.secrets.empty()) {
    return written;
  }
  json::Object members = *written.as_object();
  members.emplace_back("secrets", lent_secrets_to_json(spec.secrets));
  return members;
}

}  // namespace

const char* name_of(DeliveryKind kind) {
  switch (kind) {
    case DeliveryKind::kCreate:
      return "create";
    case DeliveryKind::kRemove:
      return "remove";
    case DeliveryKind::kRenew:
      return "renew";
    case DeliveryKind::kNarrow:
      return "narrow";
    case DeliveryKind::kLend:
      return "lend";
  }
  std::abort();
}

Result<DeliveryKind> delivery_kind_from(std::string_view name) {
  for (const auto kind : {DeliveryKind::kCreate, DeliveryKind::kRemove, DeliveryKind::kRenew,
                          DeliveryKind::kNarrow, DeliveryKind::kLend}) {
    if (name == name_of(kind)) {
      return kind;
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               "kind " + quoted(name) + " is none of create, remove, renew, narrow, lend",
               {},
               "kind"};
}

json::Value to_json(const Delivery& delivery) {
  json::Object out{{"seq", delivery.seq},
                   {"kind", name_of(delivery.kind)},
                   {"sandbox", delivery.sandbox.str()},
                   {"tenant", delivery.tenant.str()},
                   {"generation", delivery.generation}};
  if (has_expiry(delivery.kind)) {
    out.emplace_back("expires_at", to_rfc3339(delivery.expires_at));
  }
  if (delivery.kind == DeliveryKind::kCreate) {
    out.emplace_back("policy_hash", delivery.policy_hash);
    out.emplace_back("spec", delivery.spec ? spec_for_worker(*delivery.spec) : json::Value());
  }
  if (delivery.kind == DeliveryKind::kNarrow) {
    out.emplace_back("policy_hash", delivery.policy_hash);
    out.emplace_back("egress", delivery.egress ? egress_to_json(Egress::walled(*delivery.egress))
                                               : json::Value());
  }
  if (delivery.kind == DeliveryKind::kLend) {
    out.emplace_back("secrets", lent_secrets_to_json(delivery.secrets));
  }
  return out;
}

Result<Delivery> delivery_from_json(const json::Value& value) {
  constexpr std::size_t kMaxKindBytes = 16;
  json::Reader reader(value, "");
  const auto kind = delivery_kind_from(reader.required_string("kind", kMaxKindBytes));
  if (!kind) {
    reader.refuse(kind.error());
  }
  Delivery delivery{.seq = reader.required_int("seq", 0, detail::kMaxCounter),
                    .kind = kind.value_or(DeliveryKind::kRemove),
                    .sandbox = detail::read_id<SandboxId>(reader, "sandbox"),
                    .tenant = detail::read_id<TenantId>(reader, "tenant"),
                    .generation = reader.required_int("generation", 1, detail::kMaxCounter)};
  if (has_expiry(delivery.kind)) {
    delivery.expires_at = detail::read_time(reader, "expires_at");
  }
  if (delivery.kind == DeliveryKind::kCreate) {
    read_create(reader, delivery);
  }
  if (delivery.kind == DeliveryKind::kNarrow) {
    read_narrow(reader, delivery);
  }
  if (delivery.kind == DeliveryKind::kLend) {
    read_lend(reader, delivery);
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return delivery;
}

json::Value delivery_answer_to_json(SandboxState state) {
  return json::Object{{"state", name_of(state)}};
}

Result<SandboxState> delivery_answer_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  const SandboxState state = detail::read_state(reader, "state");
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return state;
}

}  // namespace sandboxkit::wire
