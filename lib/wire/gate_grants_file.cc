// The grants of a store, read and written.

#include "sandboxkit/gate_files.h"

#include "base/text.h"
#include "json/reader.h"
#include "json/value.h"
#include "wire/gate_fields.h"

#include <set>
#include <utility>

namespace sandboxkit {
namespace {

constexpr json::Limits kGrantsLimits{
    .max_bytes = kMaxGrantsBytes, .max_depth = 6, .max_values = 600'000};
constexpr std::size_t kMaxWords = 256;

Result<GrantedUse> read_use(json::Reader& reader) {
  GrantedUse use;
  auto operations = wire::read_operations(reader);
  if (!operations) {
    return reader.ok() ? operations.error() : reader.finish().error();
  }
  use.operations = std::move(*operations);
  use.target = reader.optional_string("target", wire::kMaxGateText).value_or("");
  use.argv = reader.optional_strings("argv", kMaxWords, wire::kMaxGateText)
                 .value_or(std::vector<std::string>());
  const std::string match = reader.optional_string("match", wire::kMaxGateText).value_or("exact");
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
  grant.tree = scope.required_string("tree", wire::kMaxGateText);
  grant.tree_identity.device = static_cast<std::uint64_t>(scope.required_int("dev", 0, INT64_MAX));
  grant.tree_identity.inode = static_cast<std::uint64_t>(scope.required_int("ino", 0, INT64_MAX));
  grant.agent = scope.required_string("agent", wire::kMaxGateText);
  if (auto status = scope.finish(); !status) {
    reader.refuse(status.error());
  }
}

void read_expiry(json::Reader& reader, PermanentGrant& grant) {
  const std::string expires = reader.required_string("expires", wire::kMaxGateText);
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

Status read_told(json::Reader& reader, KeptGrant& kept) {
  kept.by = reader.optional_string("by", wire::kMaxGateText).value_or("");
  kept.request = reader.optional_string("request", wire::kMaxGateText).value_or("");
  kept.note = reader.optional_string("note", wire::kMaxGateText).value_or("");
  if (const auto created = reader.optional_string("created", wire::kMaxGateText)) {
    const auto time = parse_gate_time(*created);
    if (!time) {
      reader.refuse("created", "must be a time as in RFC 3339");
    } else {
      kept.created = *time;
    }
  }
  return reader.finish();
}

Result<KeptGrant> read_grant(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  PermanentGrant grant{.id = reader.required_string("id", wire::kMaxGateText),
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
  const std::string box = reader.optional_string("box", wire::kMaxGateText).value_or("any");
  if (box != "any" && box != "required") {
    reader.refuse("box", "must be `any` or `required`");
  }
  grant.needs_box = box == "required";
  read_scope(reader, grant);
  read_expiry(reader, grant);
  KeptGrant kept{.grant = std::move(grant)};
  if (auto status = read_told(reader, kept); !status) {
    return status.error();
  }
  return kept;
}

json::Value operations_json(const std::set<GateOperation>& operations) {
  json::Array names;
  for (const GateOperation operation : operations) {
    names.emplace_back(name_of(operation));
  }
  return names;
}

json::Value grant_json(const KeptGrant& kept) {
  const PermanentGrant& grant = kept.grant;
  json::Object object{{"id", grant.id}, {"op", operations_json(grant.use.operations)}};
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) {
      object.emplace_back(name, text);
    }
  };
  add("target", grant.use.target);
  if (!grant.use.argv.empty()) {
    object.emplace_back("argv", json::Array(grant.use.argv.begin(), grant.use.argv.end()));
    object.emplace_back("match", grant.use.argv_is_prefix ? "prefix" : "exact");
  }
  object.emplace_back("scope",
                      json::Object{{"tree", grant.tree},
                                   {"dev", static_cast<std::int64_t>(grant.tree_identity.device)},
                                   {"ino", static_cast<std::int64_t>(grant.tree_identity.inode)},
                                   {"agent", grant.agent}});
  object.emplace_back("box", grant.needs_box ? "required" : "any");
  add("created", kept.created ? to_rfc3339(*kept.created) : std::string());
  object.emplace_back("expires", grant.expires ? to_rfc3339(*grant.expires) : "never");
  add("by", kept.by);
  add("request", kept.request);
  add("note", kept.note);
  return object;
}

}  // namespace

Result<KeptGrants> parse_kept_grants(std::string_view json) {
  const auto value = json::parse(json, kGrantsLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  if (auto status = wire::check_version(reader); !status) {
    return status.error();
  }
  KeptGrants kept;
  kept.generation =
      static_cast<std::uint64_t>(reader.optional_int("generation", 0, INT64_MAX).value_or(0));
  reader.optional_string("mac", wire::kMaxGateText);
  const json::Value* member = reader.member("grants");
  const json::Array* list = member != nullptr ? member->as_array() : nullptr;
  if (list == nullptr || list->size() > kMaxKeptGrants) {
    reader.refuse("grants",
                  "must be a list of at most " + std::to_string(kMaxKeptGrants) + " grants");
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  std::set<std::string> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = "grants[" + std::to_string(i) + "]";
    auto grant = read_grant((*list)[i], path);
    if (!grant) {
      return grant.error();
    }
    if (!ids.insert(grant->grant.id).second) {
      return Error{ErrorCode::kInvalidArgument,
                   path + ".id " + quoted(grant->grant.id) + " stands twice",
                   {},
                   path + ".id"};
    }
    kept.grants.push_back(std::move(*grant));
  }
  return kept;
}

Result<std::vector<PermanentGrant>> parse_gate_grants(std::string_view json) {
  auto kept = parse_kept_grants(json);
  if (!kept) {
    return kept.error();
  }
  std::vector<PermanentGrant> grants;
  for (KeptGrant& grant : kept->grants) {
    grants.push_back(std::move(grant.grant));
  }
  return grants;
}

std::string to_json(const KeptGrants& kept) {
  std::string text =
      "{\"version\":1,\"generation\":" + std::to_string(kept.generation) + ",\"grants\":[";
  for (std::size_t i = 0; i < kept.grants.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    text += json::dump(grant_json(kept.grants[i]));
  }
  return text + "]}";
}

}  // namespace sandboxkit
