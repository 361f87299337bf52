#include "base/text.h"
#include "json/reader.h"
#include "wire/message_fields.h"
#include "wire/messages.h"

#include <limits>
#include <utility>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxDenialBytes = 64;
constexpr double kMaxCpuSeconds = 1e12;

Result<SandboxReport> read_report(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  SandboxReport report{
      .sandbox = detail::read_id<SandboxId>(reader, "id"),
      .tenant = detail::read_id<TenantId>(reader, "tenant"),
      .generation = reader.required_int("generation", 0, detail::kMaxCounter),
      .state = detail::read_state(reader, "state"),
      .expires_at = detail::read_time(reader, "expires_at"),
      .policy_hash = detail::read_plain(reader, "policy_hash", detail::kMaxHashBytes),
      .structure = detail::read_plain(reader, "structure", detail::kMaxStructureBytes),
      .reason = detail::read_plain(reader, "reason", kMaxReasonBytes)};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return report;
}

json::Value denied_line_to_json(const DeniedEgress& line) {
  return json::Object{{"host", detail::clean_text(line.host, kMaxHostBytes)},
                      {"port", std::int64_t{line.port}},
                      {"reason", detail::clean_text(line.reason, kMaxDenialBytes)},
                      {"count", line.count},
                      {"first", to_rfc3339(line.first)},
                      {"last", to_rfc3339(line.last)}};
}

Result<DeniedEgress> read_denied_line(const json::Value& value, const std::string& path) {
  constexpr std::int64_t kMaxPort = std::numeric_limits<std::uint16_t>::max();
  json::Reader reader(value, path);
  DeniedEgress line{.host = detail::read_plain(reader, "host", kMaxHostBytes),
                    .port = static_cast<std::uint16_t>(reader.required_int("port", 0, kMaxPort)),
                    .reason = detail::read_plain(reader, "reason", kMaxDenialBytes),
                    .count = reader.required_int("count", 0, detail::kMaxCounter),
                    .first = detail::read_time(reader, "first"),
                    .last = detail::read_time(reader, "last")};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return line;
}

}  // namespace

json::Value to_json(const SandboxReport& report) {
  json::Object out{{"id", report.sandbox.str()},
                   {"tenant", report.tenant.str()},
                   {"generation", report.generation},
                   {"state", name_of(report.state)},
                   {"expires_at", to_rfc3339(report.expires_at)},
                   {"policy_hash", detail::clean_text(report.policy_hash, detail::kMaxHashBytes)},
                   {"reason", detail::clean_text(report.reason, kMaxReasonBytes)}};
  detail::write_structure(out, report.structure);
  return out;
}

Result<SandboxReport> sandbox_report_from_json(const json::Value& value) {
  return read_report(value, "");
}

json::Value inventory_to_json(const std::vector<SandboxReport>& sandboxes) {
  return json::Object{{"sandboxes", detail::write_list(sandboxes, [](const SandboxReport& report) {
                         return to_json(report);
                       })}};
}

Result<std::vector<SandboxReport>> inventory_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  auto sandboxes =
      detail::read_list<SandboxReport>(reader, "sandboxes", kMaxReportedSandboxes, read_report);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return sandboxes;
}

json::Value to_json(const SandboxStats& stats) {
  return json::Object{{"cpu_seconds", stats.cpu_seconds},
                      {"memory_bytes", stats.memory_bytes},
                      {"memory_limit_bytes", stats.memory_limit_bytes},
                      {"processes", stats.processes}};
}

Result<SandboxStats> stats_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto cpu_seconds = reader.optional_number("cpu_seconds", 0, kMaxCpuSeconds);
  if (!cpu_seconds) {
    reader.refuse("cpu_seconds", "is required");
  }
  const SandboxStats stats{
      .cpu_seconds = cpu_seconds.value_or(0),
      .memory_bytes = reader.required_int("memory_bytes", 0, kMost),
      .memory_limit_bytes = reader.required_int("memory_limit_bytes", 0, kMost),
      .processes = reader.required_int("processes", 0, kMost)};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return stats;
}

json::Value denied_to_json(const std::vector<DeniedEgress>& denied) {
  return json::Object{{"denied", detail::write_list(denied, denied_line_to_json)}};
}

Result<std::vector<DeniedEgress>> denied_from_json(const json::Value& value) {
  json::Reader reader(value, "");
  auto denied =
      detail::read_list<DeniedEgress>(reader, "denied", kMaxDeniedLines, read_denied_line);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return denied;
}

}  // namespace sandboxkit::wire
