#include "wire/approvals.h"

#include "base/text.h"
#include "json/reader.h"

#include <utility>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxTimeBytes = 40;

Result<WallTime> read_time(json::Reader& reader, const char* name) {
  const auto time = parse_rfc3339(reader.required_string(name, kMaxTimeBytes));
  if (!time) {
    return Error{ErrorCode::kInvalidArgument, "is no time", "invalid_argument", name};
  }
  return *time;
}

Result<Approval> approval_from_json(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  const auto asked = read_time(reader, "asked_at");
  const auto expires = read_time(reader, "expires_at");
  const json::Value* member = value.find("prompt");
  auto prompt = parse_prompt(member != nullptr ? json::dump(*member) : "");
  for (const Error* error : {asked ? nullptr : &asked.error(), expires ? nullptr : &expires.error(),
                             prompt ? nullptr : &prompt.error()}) {
    if (error != nullptr) {
      return *error;
    }
  }
  return Approval{std::move(*prompt), *asked, *expires};
}

}  // namespace

json::Value approvals_to_json(const std::vector<Approval>& approvals) {
  json::Array list;
  std::size_t used = 0;
  for (const Approval& each : approvals) {
    const std::string text = to_json(each.prompt);
    used += text.size();
    auto prompt = json::parse(text);
    if (!prompt || used > kMaxApprovalBytes) {
      break;
    }
    list.emplace_back(json::Object{{"asked_at", to_rfc3339(each.asked_at)},
                                   {"expires_at", to_rfc3339(each.expires_at)},
                                   {"prompt", std::move(*prompt)}});
  }
  return json::Object{{"approvals", std::move(list)}};
}

Result<std::vector<Approval>> approvals_from_json(const json::Value& value) {
  const json::Value* member = value.find("approvals");
  const json::Array* items = member != nullptr ? member->as_array() : nullptr;
  if (items == nullptr || items->size() > ApprovalBoard::kMaxWaiting) {
    return Error{ErrorCode::kInvalidArgument,
                 "must be a list of at most " + std::to_string(ApprovalBoard::kMaxWaiting),
                 "invalid_argument", "approvals"};
  }
  std::vector<Approval> approvals;
  for (const json::Value& item : *items) {
    auto approval = approval_from_json(item, "approvals[" + std::to_string(approvals.size()) + "]");
    if (!approval) {
      return approval.error();
    }
    approvals.push_back(std::move(*approval));
  }
  return approvals;
}

}  // namespace sandboxkit::wire
