// Members that the gate's files share.

#include "wire/gate_fields.h"

#include "sandboxkit/gate_files.h"

#include "base/text.h"
#include "gate/operations.h"

#include <chrono>
#include <string>

namespace sandboxkit {
namespace wire {
namespace {

constexpr std::size_t kMaxOperations = 32;

Error wrong(const std::string& field, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, field + " " + what, {}, field};
}

}  // namespace

Result<std::set<GateOperation>> read_operations(json::Reader& reader) {
  const std::string field = reader.path_of("op");
  const auto names = reader.optional_strings("op", kMaxOperations, kMaxGateText);
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

Status check_version(json::Reader& reader) {
  const auto version = reader.required_int("version", 1, 1 << 20);
  if (reader.ok() && version != 1) {
    reader.refuse("version", "must be 1, which is all that this build can read");
  }
  return reader.ok() ? Status() : reader.finish();
}

}  // namespace wire

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

}  // namespace sandboxkit
