#include "base/text.h"
#include "json/reader.h"
#include "wire/message_fields.h"
#include "wire/messages.h"

#include <utility>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxWords = 64;
constexpr std::size_t kMaxWordBytes = 64;
constexpr double kMaxCores = 1e6;
constexpr std::int64_t kMaxMemoryMb = std::int64_t{1} << 40;
constexpr std::size_t kMaxCredentialBytes = 256;
constexpr std::int64_t kMaxIntervalMs = 3'600'000;

std::vector<std::string> first_of(const std::vector<std::string>& texts, std::size_t count,
                                  std::size_t max_bytes) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < texts.size() && i < count; ++i) {
    out.push_back(detail::clean_text(texts[i], max_bytes));
  }
  return out;
}

void append_facts(const WorkerFacts& facts, json::Object& out) {
  const DriverCapabilities& driver = facts.driver;
  out.emplace_back("engine", detail::clean_text(driver.engine, kMaxWorkerTextBytes));
  out.emplace_back("arch", detail::clean_text(driver.arch, kMaxWordBytes));
  out.emplace_back("cpu_cores", driver.cpu_cores);
  out.emplace_back("memory_mb", driver.memory_mb);
  out.emplace_back("max_sandboxes", facts.max_sandboxes);
  out.emplace_back("max_starting", facts.max_starting);
  out.emplace_back("capabilities", detail::strings_to_json(
                                       first_of(driver.capabilities, kMaxWords, kMaxWordBytes)));
  out.emplace_back("runtimes",
                   detail::strings_to_json(first_of(driver.runtimes, kMaxWords, kMaxWordBytes)));
  out.emplace_back("labels", detail::string_map_to_json(facts.labels));
  out.emplace_back("images", detail::strings_to_json(first_of(driver.images, kMaxWorkerListItems,
                                                              kMaxWorkerTextBytes)));
  if (!facts.problem.empty()) {
    out.emplace_back("problem", detail::clean_text(facts.problem, kMaxWorkerTextBytes));
  }
}

/// What is absent reads as the least: no capability, no room.
WorkerFacts read_facts(json::Reader& reader) {
  WorkerFacts facts{
      .driver = {.engine = detail::read_plain(reader, "engine", kMaxWorkerTextBytes)}};
  facts.driver.arch = detail::read_plain(reader, "arch", kMaxWordBytes);
  facts.driver.cpu_cores = reader.optional_number("cpu_cores", 0, kMaxCores).value_or(0);
  facts.driver.memory_mb = reader.optional_int("memory_mb", 0, kMaxMemoryMb).value_or(0);
  facts.max_sandboxes = reader.optional_int("max_sandboxes", 0, detail::kMaxCounter).value_or(0);
  facts.max_starting = reader.optional_int("max_starting", 0, detail::kMaxCounter).value_or(0);
  facts.driver.capabilities =
      detail::read_plain_list(reader, "capabilities", kMaxWords, kMaxWordBytes);
  facts.driver.runtimes = detail::read_plain_list(reader, "runtimes", kMaxWords, kMaxWordBytes);
  facts.labels = reader
                     .optional_string_map("labels", SandboxSpec::kMaxMapEntries,
                                          SandboxSpec::kMaxMapKeyBytes, kMaxWorkerTextBytes)
                     .value_or(std::map<std::string, std::string>{});
  facts.driver.images =
      detail::read_plain_list(reader, "images", kMaxWorkerListItems, kMaxWorkerTextBytes);
  facts.problem = detail::read_plain(reader, "problem", kMaxWorkerTextBytes);
  return facts;
}

json::Value heartbeat_sandbox_to_json(const HeartbeatSandbox& sandbox) {
  json::Object out{{"id", sandbox.sandbox.str()},
                   {"generation", sandbox.generation},
                   {"state", name_of(sandbox.state)},
                   {"expires_at", to_rfc3339(sandbox.expires_at)},
                   {"reason", detail::clean_text(sandbox.reason, kMaxReasonBytes)}};
  detail::write_structure(out, sandbox.structure);
  return out;
}

Result<HeartbeatSandbox> read_heartbeat_sandbox(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  HeartbeatSandbox sandbox{
      .sandbox = detail::read_id<SandboxId>(reader, "id"),
      .generation = reader.required_int("generation", 0, detail::kMaxCounter),
      .state = detail::read_state(reader, "state"),
      .expires_at = detail::read_time(reader, "expires_at"),
      .reason = detail::read_plain(reader, "reason", kMaxReasonBytes),
      .structure = detail::read_plain(reader, "structure", detail::kMaxStructureBytes)};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return sandbox;
}

}  // namespace

json::Value to_json(const Heartbeat& heartbeat) {
  json::Object out;
  append_facts(heartbeat.facts, out);
  out.emplace_back("sandboxes", detail::write_list(heartbeat.sandboxes, heartbeat_sandbox_to_json));
  if (heartbeat.renew) {
    out.emplace_back("renew", true);
  }
  return out;
}

Result<Heartbeat> heartbeat_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  Heartbeat heartbeat{.facts = read_facts(reader)};
  heartbeat.sandboxes = detail::read_list<HeartbeatSandbox>(
      reader, "sandboxes", kMaxReportedSandboxes, read_heartbeat_sandbox);
  heartbeat.renew = reader.optional_bool("renew").value_or(false);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return heartbeat;
}

json::Value to_json(const HeartbeatAnswer& answer) {
  json::Object out{{"interval_ms", std::int64_t{answer.interval.count()}}};
  if (!answer.credential.empty()) {
    out.emplace_back("credential", answer.credential);
  }
  return out;
}

Result<HeartbeatAnswer> heartbeat_answer_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  HeartbeatAnswer answer{
      std::chrono::milliseconds(reader.required_int("interval_ms", 1, kMaxIntervalMs)),
      reader.optional_string("credential", kMaxCredentialBytes).value_or("")};
  if (has_control_characters(answer.credential)) {
    reader.refuse("credential", "is no credential");
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return answer;
}

json::Value to_json(const JoinRequest& request) {
  json::Object out{{"name", detail::clean_text(request.name, kMaxWorkerNameBytes)}};
  append_facts(request.facts, out);
  return out;
}

Result<JoinRequest> join_request_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  JoinRequest request{.name = detail::read_plain(reader, "name", kMaxWorkerNameBytes),
                      .facts = read_facts(reader)};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return request;
}

json::Value to_json(const JoinAnswer& answer) {
  return json::Object{{"worker", answer.worker.str()},
                      {"controller", answer.controller.str()},
                      {"workspace", answer.workspace},
                      {"credential", answer.credential}};
}

Result<JoinAnswer> join_answer_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  JoinAnswer answer{.worker = detail::read_id<WorkerId>(reader, "worker"),
                    .controller = detail::read_id<ControllerId>(reader, "controller"),
                    // A lost workspace must not read as "serves everyone": it is required.
                    .workspace = reader.required_string("workspace", TenantId::kMaxBytes),
                    .credential = reader.required_string("credential", kMaxCredentialBytes)};
  if (!answer.workspace.empty() && !TenantId::parse(answer.workspace)) {
    reader.refuse("workspace", "is no workspace's id");
  }
  if (answer.credential.empty() || has_control_characters(answer.credential)) {
    reader.refuse("credential", "is no credential");
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return answer;
}

}  // namespace sandboxkit::wire
