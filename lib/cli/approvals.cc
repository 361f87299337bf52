// What agents on people's machines ask, and what the machines' owners answer.
#include "base/percent.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <algorithm>
#include <string>
#include <vector>

namespace sandboxkit::cli {
namespace {

/// `write /srv/x; exec rm -rf build`.
std::string asks_text(const json::Value& approval) {
  std::string text;
  const json::Value* asks = approval.find("asks");
  const json::Array* items = asks != nullptr ? asks->as_array() : nullptr;
  for (const json::Value& each : items != nullptr ? *items : json::Array()) {
    text += (text.empty() ? "" : "; ") + cell(each, "op") + " " + cell(each, "text");
    const std::string to = each.text("to");
    text += to.empty() ? "" : " " + to;
  }
  return text;
}

std::string choices_text(const json::Value& approval) {
  std::string text;
  const json::Value* offers = approval.find("offers");
  const json::Array* items = offers != nullptr ? offers->as_array() : nullptr;
  for (const json::Value& each : items != nullptr ? *items : json::Array()) {
    text += (text.empty() ? "" : " ") + each.text("choice");
  }
  return text;
}

std::vector<std::string> approval_row(const json::Value& approval, WallTime now) {
  return {cell(approval, "id"), cell(approval, "agent"), asks_text(approval),
          relative_time(cell(approval, "expires_at"), now), choices_text(approval)};
}

}  // namespace

int list_approvals(const Common& common, std::int64_t wait_seconds) {
  return print_listing(common, {"/v1/approvals?wait=" + std::to_string(wait_seconds),
                                "approvals",
                                {"ID", "AGENT", "ASKS TO", "DENIED", "ANSWERS"},
                                approval_row,
                                "nobody asks anything"});
}

int answer_approval(const Common& common, const std::string& id, const std::string& answer) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto waiting = (*api)->get("/v1/approvals");
  if (!waiting) {
    return fail(waiting.error());
  }
  const json::Value* list = waiting->find("approvals");
  const json::Array* items = list != nullptr ? list->as_array() : nullptr;
  for (const json::Value& each : items != nullptr ? *items : json::Array()) {
    if (each.text("id") != id) {
      continue;
    }
    // The digest of what is asked now: what this command shows is what it answers.
    write_all(kStandardError, printable(answer + ": " + asks_text(each)) + "\n");
    const auto answered =
        (*api)->post("/v1/approvals/" + percent_encoded(id),
                     json::Object{{"answer", answer}, {"digest", each.text("digest")}});
    return answered ? kExitOk : fail(answered.error());
  }
  return fail(Error{ErrorCode::kNotFound, "no such question waits", "approval_not_found"});
}

}  // namespace sandboxkit::cli
