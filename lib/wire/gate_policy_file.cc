// The owner's policy file.

#include "sandboxkit/gate_files.h"
#include "sandboxkit/offline.h"

#include "base/text.h"
#include "gate/operations.h"
#include "gate/pattern.h"
#include "json/reader.h"
#include "json/value.h"
#include "wire/gate_fields.h"

#include <cstdlib>
#include <utility>

namespace sandboxkit {
namespace {

constexpr json::Limits kPolicyLimits{.max_bytes = 1U << 20, .max_depth = 6, .max_values = 60'000};
constexpr std::size_t kMaxEntries = 4096;

Error wrong(const std::string& field, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, field + " " + what, {}, field};
}

/// Reads a pattern as the gate will, so that what is wrong is told with its place in the file.
Status check_pattern(const std::string& field, const std::string& pattern,
                     gate::Matching matching) {
  const gate::Anchors some{.home = "/home", .tree = "/tree", .scratch = "/scratch"};
  const auto read = gate::PathPattern::compile(pattern, some, matching);
  if (!read) {
    return Error{ErrorCode::kInvalidArgument, field + ": " + read.error().message, {}, field};
  }
  if (matching == gate::Matching::kExact && read->is_bare_name()) {
    return wrong(field,
                 "must hold a `/`: what lifts a denial is a place, and no name at any depth");
  }
  return {};
}

struct Place {
  std::set<GateOperation> operations;
  std::string target;
};

struct PlaceRules {
  gate::Matching matching;
  /// Without `op` it is about changes.
  bool has_default;
};

Result<Place> read_place(const json::Value& value, const std::string& path, PlaceRules rules) {
  json::Reader reader(value, path);
  Place place;
  place.target = reader.required_string("target", gate::PathPattern::kMaxBytes);
  if (!reader.ok()) {
    return reader.finish().error();
  }
  if (rules.has_default && !reader.has("op")) {
    place.operations = gate::changing_operations();
  } else {
    auto operations = wire::read_operations(reader);
    if (!operations) {
      return reader.ok() ? operations.error() : reader.finish().error();
    }
    place.operations = std::move(*operations);
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  if (auto status = check_pattern(reader.path_of("target"), place.target, rules.matching);
      !status) {
    return status.error();
  }
  return place;
}

/// The list's entries, which may be absent; nullptr then.
Result<const json::Array*> list_of(json::Reader& reader, const char* name) {
  const json::Value* value = reader.member(name);
  if (value == nullptr) {
    return static_cast<const json::Array*>(nullptr);
  }
  const json::Array* list = value->as_array();
  if (list == nullptr || list->size() > kMaxEntries) {
    return wrong(reader.path_of(name),
                 "must be a list of at most " + std::to_string(kMaxEntries) + " entries");
  }
  return list;
}

template <typename Add>
Status read_places(json::Reader& reader, const char* name, PlaceRules rules, Add add) {
  const auto list = list_of(reader, name);
  if (!list) {
    return list.error();
  }
  for (std::size_t i = 0; *list != nullptr && i < (*list)->size(); ++i) {
    const std::string path = std::string(name) + "[" + std::to_string(i) + "]";
    auto place = read_place((**list)[i], path, rules);
    if (!place) {
      return place.error();
    }
    add(std::move(*place), path);
  }
  return {};
}

Status read_roots(json::Reader& reader, GatePolicy& policy) {
  const auto list = list_of(reader, "roots");
  if (!list) {
    return list.error();
  }
  for (std::size_t i = 0; *list != nullptr && i < (*list)->size(); ++i) {
    json::Reader root((**list)[i], "roots[" + std::to_string(i) + "]");
    const std::string path = root.required_string("path", wire::kMaxGateText);
    const std::string access = root.required_string("access", wire::kMaxGateText);
    if (access != "ro" && access != "rw") {
      root.refuse("access", "must be `ro` or `rw`");
    }
    if (auto status = root.finish(); !status) {
      return status;
    }
    policy.roots.push_back({path, access == "rw" ? RootAccess::kReadWrite : RootAccess::kReadOnly});
  }
  return {};
}

Status read_variables(json::Reader& reader, GatePolicy& policy) {
  const json::Value* value = reader.member("variables");
  if (value == nullptr) {
    return {};
  }
  json::Reader variables(*value, "variables");
  for (const auto& [name, list] : {std::pair("deny", &policy.denied_variables),
                                   std::pair("allow", &policy.allowed_variables)}) {
    if (auto names = variables.optional_strings(name, kMaxEntries, wire::kMaxGateText)) {
      list->insert(list->end(), names->begin(), names->end());
    }
  }
  return variables.finish();
}

Status read_egress(json::Reader& reader, GatePolicy& policy) {
  const json::Value* value = reader.member("egress");
  if (value == nullptr) {
    return {};
  }
  auto egress = parse_egress_policy(json::dump(*value));
  if (!egress) {
    Error error = egress.error();
    error.message = "egress: " + error.message;
    error.field = "egress." + error.field;
    return error;
  }
  policy.egress = std::move(*egress);
  return {};
}

Status read_lists(json::Reader& reader, const std::string& name, GatePolicy& policy) {
  const PlaceRules denial{gate::Matching::kFolded, false};
  auto status = read_places(reader, "deny", denial, [&](Place place, const std::string& path) {
    policy.denials.push_back({place.target, std::move(place.operations), name + ": " + path});
  });
  if (!status) {
    return status;
  }
  const PlaceRules exception{gate::Matching::kExact, false};
  status = read_places(reader, "except", exception, [&](Place place, const std::string& path) {
    policy.exceptions.push_back({place.target, std::move(place.operations), name + ": " + path});
  });
  if (!status) {
    return status;
  }
  const PlaceRules exclusion{gate::Matching::kFolded, true};
  return read_places(reader, "exclude", exclusion, [&](Place place, const std::string& path) {
    policy.exclusions.push_back({place.target, std::move(place.operations), name + ": " + path});
  });
}

}  // namespace

Result<GatePolicy> parse_gate_policy(std::string_view json, const std::string& name) {
  const auto value = json::parse(json, kPolicyLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  if (auto status = wire::check_version(reader); !status) {
    return status.error();
  }
  GatePolicy policy = GatePolicy::shipped();
  if (auto status = read_lists(reader, name, policy); !status) {
    return status.error();
  }
  for (const auto& read : {read_roots, read_variables, read_egress}) {
    if (auto status = read(reader, policy); !status) {
      return status.error();
    }
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return policy;
}

}  // namespace sandboxkit
