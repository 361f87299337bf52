#include "tests/fuzz/fuzz_input.h"
#include "wire/messages.h"

#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

void check_spec(const json::Value& value) {
  const auto spec = wire::spec_from_json(value);
  if (!spec) {
    PROMISE(spec.error().code == ErrorCode::kInvalidArgument, "a refusal is the caller's to fix");
    return;
  }
  const json::Value* egress = value.find("egress");
  PROMISE(spec->egress.is_walled() == (egress != nullptr && !egress->is_null()),
          "whoever asked for a wall gets one, and nobody else");
  PROMISE(validate(*spec).has_value(), "what is taken is valid");
  const json::Value written = wire::spec_to_json(*spec);
  PROMISE(written.find("secrets") == nullptr, "and no secret is written with it");
  SandboxSpec without_secrets = *spec;
  without_secrets.secrets.clear();
  const auto back = wire::spec_from_json(written);
  PROMISE(back.has_value(), "what was written is read");
  PROMISE(canonical_text(*back) == canonical_text(without_secrets), "as the same spec");
  PROMISE(back->name == spec->name && back->timeout == spec->timeout, "in every member");
  PROMISE(wire::spec_to_json(*back) == written, "and is written the same again");
}

/// What `read` takes, `write` writes so that it is taken again and written the same.
template <typename Read, typename Write>
void check_round_trip(const json::Value& value, const Read& read, const Write& write) {
  const auto message = read(value);
  if (!message) {
    return;
  }
  const json::Value written = write(*message);
  const auto back = read(written);
  PROMISE(back.has_value(), "what was written is read");
  PROMISE(write(*back) == written, "and is written the same again");
}

constexpr auto kToJson = [](const auto& message) { return wire::to_json(message); };

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto value = json::parse(input.rest(), wire::kInventoryLimits);
  if (!value) {
    return 0;
  }
  check_spec(*value);
  check_round_trip(*value, wire::delivery_from_json, kToJson);
  check_round_trip(*value, wire::inventory_from_json, wire::inventory_to_json);
  check_round_trip(*value, wire::heartbeat_from_json, kToJson);
  check_round_trip(*value, wire::join_request_from_json, kToJson);
  check_round_trip(*value, wire::join_answer_from_json, kToJson);
  check_round_trip(*value, wire::stats_from_json, kToJson);
  check_round_trip(*value, wire::denied_from_json, wire::denied_to_json);
  const auto delivery = wire::delivery_from_json(*value);
  if (delivery && delivery->kind == wire::DeliveryKind::kCreate) {
    PROMISE(delivery->spec.has_value(), "a create has a spec");
    PROMISE(delivery->spec->egress.is_walled() == !delivery->policy_hash.empty(),
            "both witnesses of the wall agree");
  }
  return 0;
}
