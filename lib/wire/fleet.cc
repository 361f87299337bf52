#include "wire/fleet.h"

#include "sandboxkit/egress.h"
#include "sandboxkit/sandbox_spec.h"

#include "base/text.h"
#include "json/reader.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace sandboxkit::wire {
namespace {

constexpr json::Limits kFleetLimits{
    .max_bytes = 256U << 20, .max_depth = 8, .max_values = 20'000'000};
constexpr json::Limits kRequestLimits{.max_bytes = 1U << 20, .max_depth = 8, .max_values = 10'000};

constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr double kMaxCores = 1e6;
constexpr double kMinOvercommit = 0.01;
constexpr double kMaxOvercommit = 1000;
constexpr std::int64_t kMaxSeed = INT64_MAX;
constexpr std::size_t kMaxItems = 1000;
constexpr std::size_t kMaxTextBytes = 255;
constexpr const char* kDefaultImage = "sandboxkit/base";

std::set<std::string> as_set(std::vector<std::string> texts) {
  return {std::make_move_iterator(texts.begin()), std::make_move_iterator(texts.end())};
}

void read_set(json::Reader& reader, std::string_view name, std::set<std::string>& out) {
  if (auto texts = reader.optional_strings(name, kMaxItems, kMaxTextBytes)) {
    out = as_set(std::move(*texts));
  }
}

void read_count(json::Reader& reader, std::string_view name, std::int64_t& out) {
  out = reader.optional_int(name, 0, kMaxCount).value_or(out);
}

void read_cores(json::Reader& reader, std::string_view name, double& out) {
  out = reader.optional_number(name, 0, kMaxCores).value_or(out);
}

void read_warm(json::Reader& reader, std::map<std::string, std::int64_t>& out) {
  const json::Value* value = reader.member("warm");
  if (value == nullptr) {
    return;
  }
  json::Reader warm(*value, reader.path_of("warm"));
  if (const json::Object* entries = value->as_object()) {
    for (const auto& [image, count] : *entries) {
      out[image] = warm.optional_int(image, 0, kMaxCount).value_or(0);
    }
  }
  if (auto status = warm.finish(); !status) {
    reader.refuse(status.error());
  }
}

/// The id or the error with the field's own path in place of the kind's name.
template <typename IdType>
std::optional<IdType> read_id(json::Reader& reader, std::string_view name) {
  const std::string text = reader.required_string(name, IdType::kMaxBytes);
  if (!reader.ok()) {
    return std::nullopt;
  }
  auto id = IdType::parse(text);
  if (!id) {
    Error error = id.error();
    error.field = reader.path_of(name);
    error.message = error.field + ": " + error.message;
    reader.refuse(std::move(error));
    return std::nullopt;
  }
  return std::move(*id);
}

std::optional<WorkerScope> read_scope(json::Reader& reader) {
  if (!reader.has("workspace")) {
    reader.refuse("workspace",
                  "is required: name the workspace that it serves, or \"\" for the unscoped fleet");
    return std::nullopt;
  }
  const std::string text = reader.required_string("workspace", TenantId::kMaxBytes);
  if (!reader.ok()) {
    return std::nullopt;
  }
  if (text.empty()) {
    return WorkerScope::every_tenant();
  }
  auto tenant = read_id<TenantId>(reader, "workspace");
  if (!tenant) {
    return std::nullopt;
  }
  return WorkerScope::only(std::move(*tenant));
}

void read_worker_members(json::Reader& reader, WorkerView& view) {
  if (const auto state = reader.optional_string("state", kMaxTextBytes)) {
    if (const auto known = worker_state_from(*state)) {
      view.state = *known;
    } else {
      reader.refuse("state", quoted(*state) + " is none of " + worker_state_names());
    }
  }
  read_set(reader, "capabilities", view.capabilities);
  read_set(reader, "runtimes", view.runtimes);
  read_set(reader, "images", view.images);
  read_set(reader, "taints", view.taints);
  view.labels = reader.optional_string_map("labels", kMaxItems, kMaxTextBytes, kMaxTextBytes)
                    .value_or(view.labels);
  view.arch = reader.optional_string("arch", kMaxTextBytes).value_or(view.arch);
  read_cores(reader, "cpu_cores", view.cpu_cores);
  read_cores(reader, "used_cpu_cores", view.used_cpu_cores);
  read_count(reader, "memory_mb", view.memory_mb);
  read_count(reader, "used_memory_mb", view.used_memory_mb);
  read_count(reader, "sandboxes", view.sandboxes);
  read_count(reader, "max_sandboxes", view.max_sandboxes);
  read_count(reader, "starting", view.starting);
  read_count(reader, "max_starting", view.max_starting);
  read_warm(reader, view.warm);
}

Result<WorkerView> read_worker(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  auto id = read_id<WorkerId>(reader, "id");
  auto scope = read_scope(reader);
  if (!id || !scope) {
    return reader.finish().error();
  }
  WorkerView view{.id = std::move(*id), .scope = std::move(*scope)};
  read_worker_members(reader, view);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return view;
}

Status read_workers(const json::Value& value, std::vector<WorkerView>& out) {
  const json::Array* items = value.as_array();
  if (items == nullptr || items->size() > kMaxFleetWorkers) {
    return Error{ErrorCode::kInvalidArgument,
                 "workers must be an array of at most " + std::to_string(kMaxFleetWorkers),
                 {},
                 "workers"};
  }
  std::set<std::string> seen;
  out.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::string path = "workers[" + std::to_string(i) + "]";
    auto view = read_worker((*items)[i], path);
    if (!view) {
      return view.error();
    }
    if (!seen.insert(view->id.str()).second) {
      return Error{ErrorCode::kInvalidArgument,
                   path + ".id " + quoted(view->id.str()) + " stands there twice",
                   {},
                   path + ".id"};
    }
    out.push_back(std::move(*view));
  }
  return {};
}

void read_overcommit(json::Reader& reader, PlacementPolicy& policy) {
  const json::Value* value = reader.member("overcommit");
  if (value == nullptr) {
    return;
  }
  json::Reader ratios(*value, reader.path_of("overcommit"));
  policy.cpu_overcommit =
      ratios.optional_number("cpu", kMinOvercommit, kMaxOvercommit).value_or(policy.cpu_overcommit);
  policy.memory_overcommit = ratios.optional_number("memory", kMinOvercommit, kMaxOvercommit)
                                 .value_or(policy.memory_overcommit);
  if (auto status = ratios.finish(); !status) {
    reader.refuse(status.error());
  }
}

void read_wall(json::Reader& reader, PlacementRequest& request) {
  const json::Value* value = reader.member("egress");
  if (value == nullptr) {
    return;
  }
  request.needs_egress_wall = true;
  json::Reader egress(*value, reader.path_of("egress"));
  const auto domains = egress.optional_strings("allowed_domains", EgressPolicy::kMaxDomains,
                                               EgressPolicy::kMaxEntryBytes);
  const auto networks = egress.optional_strings("allowed_networks", EgressPolicy::kMaxNetworks,
                                                EgressPolicy::kMaxEntryBytes);
  egress.optional_bool("strict_tls");  // Any wall can do it.
  if (auto status = egress.finish(); !status) {
    reader.refuse(status.error());
    return;
  }
  const std::vector<std::string> none;
  if (const auto policy =
          EgressPolicy::create(domains ? *domains : none, networks ? *networks : none);
      !policy) {
    Error error = policy.error();
    error.field = egress.path_of(error.field);
    reader.refuse(std::move(error));
  }
}

void read_strategy(json::Reader& reader, PlacementRequest& request) {
  const auto text = reader.optional_string("policy", kMaxTextBytes);
  if (!text) {
    return;
  }
  if (*text == "spread") {
    request.strategy = PlacementStrategy::kSpread;
  } else if (*text == "pack") {
    request.strategy = PlacementStrategy::kPack;
  } else {
    reader.refuse("policy", quoted(*text) + " is none of spread, pack");
  }
}

json::Value score_json(const Score& score) {
  return json::Object{{"worker", score.worker.str()}, {"own", score.own},
                      {"warm", score.warm},           {"image_present", score.image_present},
                      {"load", score.load},           {"total", score.total}};
}

json::Value refusal_json(const Refusal& refusal) {
  json::Object counts;
  for (const auto& [filter, count] : refusal.counts) {
    counts.emplace_back(name_of(filter), count);
  }
  json::Value retry_after;
  if (refusal.retry_after) {
    retry_after = std::int64_t{refusal.retry_after->count()};
  }
  return json::Object{{"error", name_of(refusal.code)},
                      {"code", status_of(refusal.code)},
                      {"counts", std::move(counts)},
                      {"retry_after", std::move(retry_after)}};
}

}  // namespace

Result<FleetDocument> parse_fleet(std::string_view text) {
  const auto value = json::parse(text, kFleetLimits);
  if (!value) {
    return value.error();
  }
  FleetDocument document;
  json::Reader reader(*value, "");
  if (const json::Value* workers = reader.member("workers")) {
    if (auto status = read_workers(*workers, document.workers); !status) {
      reader.refuse(status.error());
    }
  } else {
    reader.refuse("workers", "is required (an empty fleet is `[]`)");
  }
  read_overcommit(reader, document.policy);
  document.seed = static_cast<std::uint64_t>(reader.optional_int("seed", 0, kMaxSeed).value_or(1));
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return document;
}

Result<PlacementRequest> parse_placement_request(std::string_view text) {
  const auto value = json::parse(text, kRequestLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  auto tenant = read_id<TenantId>(reader, "tenant");
  if (!tenant) {
    return reader.finish().error();
  }
  PlacementRequest request{
      .tenant = std::move(*tenant),
      .image =
          reader.optional_string("image", SandboxSpec::kMaxImageBytes).value_or(kDefaultImage)};
  request.cpu_cores =
      reader.optional_number("cpu_cores", 0, SandboxSpec::kMaxCpuCores).value_or(request.cpu_cores);
  if (!(request.cpu_cores > 0)) {
    reader.refuse("cpu_cores", "must be above 0");
  }
  request.memory_mb =
      reader.optional_int("memory_mb", SandboxSpec::kMinMemoryMb, SandboxSpec::kMaxMemoryMb)
          .value_or(request.memory_mb);
  read_wall(reader, request);
  request.runtime = reader.optional_string("runtime", kMaxTextBytes).value_or("");
  request.labels =
      reader
          .optional_string_map("labels", SandboxSpec::kMaxMapEntries, kMaxTextBytes, kMaxTextBytes)
          .value_or(request.labels);
  read_set(reader, "tolerations", request.tolerations);
  read_strategy(reader, request);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return request;
}

json::Value to_json(const Decision& decision) {
  if (const auto* placement = std::get_if<Placement>(&decision)) {
    json::Array scores;
    for (const Score& score : placement->scores()) {
      scores.push_back(score_json(score));
    }
    return json::Object{
        {"placement", json::Object{{"worker", placement->worker().str()}}},
        {"scores", std::move(scores)},
    };
  }
  return json::Object{{"refusal", refusal_json(*std::get_if<Refusal>(&decision))}};
}

}  // namespace sandboxkit::wire
