// The owner's policy file and the grants of a store.

#include "sandboxkit/gate_files.h"
#include "sandboxkit/offline.h"

#include "base/text.h"
#include "gate/operations.h"
#include "gate/pattern.h"
#include "json/reader.h"
#include "json/value.h"

#include <cstdlib>
#include <utility>

namespace sandboxkit {
namespace {

constexpr json::Limits kPolicyLimits{.max_bytes = 1U << 20, .max_depth = 6, .max_values = 60'000};
constexpr json::Limits kGrantsLimits{.max_bytes = 8U << 20, .max_depth = 6, .max_values = 600'000};
constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kMaxGrants = 10'000;
constexpr std::size_t kMaxOperations = 32;
constexpr std::size_t kMaxWords = 256;
constexpr std::size_t kMaxText = 4096;

Error wrong(const std::string& field, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, field + " " + what, {}, field};
}

Result<std::set<GateOperation>> read_operations(json::Reader& reader) {
  const std::string field = reader.path_of("op");
  const auto names = reader.optional_strings("op", kMaxOperations, kMaxText);
  if (!names || names->empty()) {
    return wrong(field, "must list operations: [\"read\"], [\"changes\"], [\"all\"]");
  }
  std::set<GateOperation> operations;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name == "all") {
      operations.merge(gate::every_operation());
    } else if (name == "changes") {
      operations.merge(gate::changing_operations());
    } else if (auto operation = gate_operation_from(name)) {
      operations.insert(*operation);
    } else {
      return wrong(
          field + "[" + std::to_string(i) + "]",
          quoted(name) + " is no operation of the gate; `all` and `changes` stand for many");
    }
  }
  return operations;
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
    auto operations = read_operations(reader);
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
    const std::string path = root.required_string("path", kMaxText);
    const std::string access = root.required_string("access", kMaxText);
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
    if (auto names = variables.optional_strings(name, kMaxEntries, kMaxText)) {
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

Status check_version(json::Reader& reader) {
  const auto version = reader.required_int("version", 1, 1 << 20);
  if (reader.ok() && version != 1) {
    reader.refuse("version", "must be 1, which is all that this build can read");
  }
  return reader.ok() ? Status() : reader.finish();
}

Result<GrantedUse> read_use(json::Reader& reader) {
  GrantedUse use;
  auto operations = read_operations(reader);
  if (!operations) {
    return reader.ok() ? operations.error() : reader.finish().error();
  }
  use.operations = std::move(*operations);
  use.target = reader.optional_string("target", kMaxText).value_or("");
  use.argv =
      reader.optional_strings("argv", kMaxWords, kMaxText).value_or(std::vector<std::string>());
  const std::string match = reader.optional_string("match", kMaxText).value_or("exact");
  if (match != "exact" && match != "prefix") {
    reader.refuse("match", "must be `exact` or `prefix`");
  }
  use.argv_is_prefix = match == "prefix";
  return use;
}

/// For whom a grant is. Each member is required: a lost one must not read as "for everyone".
void read_scope(json::Reader& reader, PermanentGrant& grant) {
  const json::Value* value = reader.member("scope");
  if (value == nullptr) {
    reader.refuse("scope", "is required: {\"tree\", \"dev\", \"ino\", \"agent\"}");
    return;
  }
  json::Reader scope(*value, reader.path_of("scope"));
  grant.tree = scope.required_string("tree", kMaxText);
  grant.tree_identity.device = static_cast<std::uint64_t>(scope.required_int("dev", 0, INT64_MAX));
  grant.tree_identity.inode = static_cast<std::uint64_t>(scope.required_int("ino", 0, INT64_MAX));
  grant.agent = scope.required_string("agent", kMaxText);
  if (auto status = scope.finish(); !status) {
    reader.refuse(status.error());
  }
}

void read_expiry(json::Reader& reader, PermanentGrant& grant) {
  const std::string expires = reader.required_string("expires", kMaxText);
  if (!reader.ok() || expires == "never") {
    return;
  }
  const auto time = parse_gate_time(expires);
  if (!time) {
    reader.refuse("expires", "must be a time as in RFC 3339, or `never`");
    return;
  }
  grant.expires = *time;
}

Result<PermanentGrant> read_grant(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  PermanentGrant grant{.id = reader.required_string("id", kMaxText),
                       .use = {},
                       .tree = {},
                       .tree_identity = {},
                       .agent = {},
                       .needs_box = false,
                       .expires = {}};
  if (!reader.ok()) {
    return reader.finish().error();
  }
  auto use = read_use(reader);
  if (!use) {
    return use.error();
  }
  grant.use = std::move(*use);
  const std::string box = reader.optional_string("box", kMaxText).value_or("any");
  if (box != "any" && box != "required") {
    reader.refuse("box", "must be `any` or `required`");
  }
  grant.needs_box = box == "required";
  read_scope(reader, grant);
  read_expiry(reader, grant);
  for (const char* told : {"created", "by", "request", "note"}) {
    reader.optional_string(told, kMaxText);
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return grant;
}

}  // namespace

Result<WallTime> parse_gate_time(std::string_view text) {
  constexpr std::size_t kOffsetBytes = 6;
  const Error error{ErrorCode::kInvalidArgument,
                    quoted(text) + " is no time as in RFC 3339 (2026-11-30T12:00:00Z)"};
  if (text.size() <= kOffsetBytes || text.back() == 'Z') {
    const auto time = parse_rfc3339(text);
    return time ? Result<WallTime>(*time) : Result<WallTime>(error);
  }
  const std::string_view offset = text.substr(text.size() - kOffsetBytes);
  const auto digits = [&](std::size_t at) {
    const bool fits =
        offset[at] >= '0' && offset[at] <= '9' && offset[at + 1] >= '0' && offset[at + 1] <= '9';
    return fits ? (offset[at] - '0') * 10 + (offset[at + 1] - '0') : -1;
  };
  const int hours = digits(1);
  const int minutes = digits(4);
  const auto time = parse_rfc3339(std::string(text.substr(0, text.size() - kOffsetBytes)) + "Z");
  const bool is_offset = (offset[0] == '+' || offset[0] == '-') && offset[3] == ':' && hours >= 0 &&
                         hours < 24 && minutes >= 0 && minutes < 60;
  if (!time || !is_offset) {
    return error;
  }
  const std::chrono::minutes ahead{(offset[0] == '-' ? -1 : 1) * (hours * 60 + minutes)};
  return *time - ahead;
}

Result<GatePolicy> parse_gate_policy(std::string_view json, const std::string& name) {
  const auto value = json::parse(json, kPolicyLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  if (auto status = check_version(reader); !status) {
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

Result<std::vector<PermanentGrant>> parse_gate_grants(std::string_view json) {
  const auto value = json::parse(json, kGrantsLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  if (auto status = check_version(reader); !status) {
    return status.error();
  }
  reader.optional_int("generation", 0, INT64_MAX);
  reader.optional_string("mac", kMaxText);
  const json::Value* member = reader.member("grants");
  const json::Array* list = member != nullptr ? member->as_array() : nullptr;
  if (list == nullptr || list->size() > kMaxGrants) {
    reader.refuse("grants", "must be a list of at most " + std::to_string(kMaxGrants) + " grants");
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  std::vector<PermanentGrant> grants;
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto grant = read_grant((*list)[i], "grants[" + std::to_string(i) + "]");
    if (!grant) {
      return grant.error();
    }
    grants.push_back(std::move(*grant));
  }
  return grants;
}

}  // namespace sandboxkit
