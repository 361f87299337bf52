#include "sandboxkit/egress.h"
#include "sandboxkit/relax/unwalled_egress.h"

#include "json/reader.h"
#include "wire/message_fields.h"
#include "wire/messages.h"

#include <utility>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxWordBytes = 64;

HardeningProfile read_profile(json::Reader& reader) {
  const auto name = reader.optional_string("profile", kMaxWordBytes);
  for (const auto profile : {HardeningProfile::kHardened, HardeningProfile::kSudo}) {
    if (!name || *name == name_of(profile)) {
      return profile;
    }
  }
  reader.refuse("profile", "must be `hardened` or `sudo`");
  return HardeningProfile::kHardened;
}

Persistence read_persistence(json::Reader& reader) {
  const auto name = reader.optional_string("persistence", kMaxWordBytes);
  for (const auto persistence : {Persistence::kEphemeral, Persistence::kWorkspace}) {
    if (!name || *name == name_of(persistence)) {
      return persistence;
    }
  }
  reader.refuse("persistence", "must be `ephemeral` or `workspace`");
  return Persistence::kEphemeral;
}

Egress read_egress(json::Reader& reader) {
  // Absent and null are one: the caller chose no wall, and every answer says so.
  const json::Value* value = reader.member("egress");
  auto egress = egress_from_json(value != nullptr ? *value : json::Value(), "egress");
  if (!egress) {
    reader.refuse(egress.error());
    return Egress::walled(EgressPolicy::deny_all());
  }
  return std::move(*egress);
}

std::vector<LentSecret> read_secrets(json::Reader& reader) {
  const json::Value* value = reader.member("secrets");
  if (value == nullptr) {
    return {};
  }
  auto secrets = lent_secrets_from_json(*value, reader.path_of("secrets"));
  if (!secrets) {
    reader.refuse(secrets.error());
    return {};
  }
  return std::move(*secrets);
}

std::map<std::string, std::string> read_map(json::Reader& reader, std::string_view name) {
  return reader
      .optional_string_map(name, SandboxSpec::kMaxMapEntries, SandboxSpec::kMaxMapKeyBytes,
                           SandboxSpec::kMaxMapValueBytes)
      .value_or(std::map<std::string, std::string>{});
}

}  // namespace

Result<Egress> egress_from_json(const json::Value& value, const std::string& path) {
  if (value.is_null()) {
    return Egress::unwalled(UnwalledEgress());
  }
  json::Reader reader(value, path);
  const auto domains = reader.optional_strings("allowed_domains", EgressPolicy::kMaxDomains,
                                               EgressPolicy::kMaxEntryBytes);
  const auto networks = reader.optional_strings("allowed_networks", EgressPolicy::kMaxNetworks,
                                                EgressPolicy::kMaxEntryBytes);
  const bool strict_tls = reader.optional_bool("strict_tls").value_or(false);
  if (!domains) {
    reader.refuse("allowed_domains", "is required; an empty list allows nothing");
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  auto policy = EgressPolicy::create(*domains, networks.value_or(std::vector<std::string>{}));
  if (!policy) {
    Error error = policy.error();
    error.field = path + (path.empty() || error.field.empty() ? "" : ".") + error.field;
    return error;
  }
  return Egress::walled(strict_tls ? policy->with_strict_tls() : std::move(*policy));
}

json::Value egress_to_json(const Egress& egress) {
  const EgressPolicy* policy = egress.policy();
  if (policy == nullptr) {
    return nullptr;
  }
  json::Object out{{"allowed_domains", detail::strings_to_json(policy->allowed_domains())},
                   {"allowed_networks", detail::strings_to_json(policy->allowed_networks())}};
  if (policy->strict_tls()) {
    // Only when it is asked for: who does not know the member refuses the whole, as it must.
    out.emplace_back("strict_tls", true);
  }
  return out;
}

Result<SandboxSpec> spec_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  SandboxSpec spec{.image = reader.required_string("image", SandboxSpec::kMaxImageBytes),
                   .egress = read_egress(reader)};
  spec.name = reader.optional_string("name", SandboxSpec::kMaxNameBytes).value_or("");
  spec.cpu_cores =
      reader.optional_number("cpu_cores", 0, SandboxSpec::kMaxCpuCores).value_or(spec.cpu_cores);
  spec.memory_mb =
      reader.optional_int("memory_mb", SandboxSpec::kMinMemoryMb, SandboxSpec::kMaxMemoryMb)
          .value_or(spec.memory_mb);
  spec.timeout = std::chrono::seconds(
      reader.optional_int("timeout_seconds", 1, SandboxSpec::kMaxTimeout.count())
          .value_or(spec.timeout.count()));
  spec.profile = read_profile(reader);
  spec.persistence = read_persistence(reader);
  spec.runtime = reader.optional_string("runtime", kMaxWordBytes).value_or("");
  spec.env = read_map(reader, "env");
  spec.metadata = read_map(reader, "metadata");
  spec.worker_labels = read_map(reader, "labels");
  spec.tolerations = reader
                         .optional_strings("tolerations", SandboxSpec::kMaxTolerations,
                                           SandboxSpec::kMaxTaintBytes)
                         .value_or(spec.tolerations);
  spec.secrets = read_secrets(reader);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  if (auto status = validate(spec); !status) {
    return status.error();
  }
  return spec;
}

json::Value spec_to_json(const SandboxSpec& spec) {
  return json::Object{
      {"image", spec.image},
      {"egress", egress_to_json(spec.egress)},
      {"name", spec.name},
      {"cpu_cores", spec.cpu_cores},
      {"memory_mb", spec.memory_mb},
      {"timeout_seconds", std::int64_t{spec.timeout.count()}},
      {"profile", name_of(spec.profile)},
      {"persistence", name_of(spec.persistence)},
      {"runtime", spec.runtime},
      {"env", detail::string_map_to_json(spec.env)},
      {"metadata", detail::string_map_to_json(spec.metadata)},
      {"labels", detail::string_map_to_json(spec.worker_labels)},
      {"tolerations", detail::strings_to_json(spec.tolerations)},
  };
}

}  // namespace sandboxkit::wire
