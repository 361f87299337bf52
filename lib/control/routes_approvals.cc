#include "base/text.h"
#include "control/api.h"
#include "control/approval_calls.h"
#include "control/find.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

/// `/v1/approvals`: what agents on people's machines ask, for the machines' owners.
namespace sandboxkit::control {
namespace {

constexpr std::size_t kMaxDigestBytes = 128;
constexpr std::size_t kMaxChoiceBytes = 32;
constexpr std::chrono::milliseconds kAnswerWait{10'000};

using Answer = const net::ApiResponder&;
using Request = const net::ApiRequest&;

/// How many calls wait. Shared with those that do.
using Waits = std::shared_ptr<std::atomic<std::size_t>>;

void list(Services& services, const Waits& waits, const Caller& caller, Request request,
          Answer answer) {
  const auto text = request.query_value("wait");
  const auto wait = parse_decimal(text.value_or("0"), kMaxApprovalWait.count());
  if (!wait) {
    return answer(
        refuse("invalid_argument",
               "wait must be a number of seconds up to " + std::to_string(kMaxApprovalWait.count()),
               {}, "wait"));
  }
  if (waits->fetch_add(1) >= kMaxApprovalWaits) {
    --*waits;
    return answer(refuse("overloaded", "too many calls wait for approvals; try again"));
  }
  gather_approvals(services, caller, std::chrono::seconds(*wait),
                   [answer, waits](const Result<json::Array>& found) {
                     --*waits;
                     answer(found ? json_answer(200, json::Object{{"approvals", *found}})
                                  : refuse(found.error()));
                   });
}

Result<PromptReply> read_reply(Request request, const Caller& caller, const std::string& prompt) {
  const auto body = body_of(request);
  if (!body) {
    return body.error();
  }
  json::Reader reader(*body, "");
  PromptReply reply{.id = prompt};
  const std::string choice = reader.required_string("answer", kMaxChoiceBytes);
  reply.digest = reader.required_string("digest", kMaxDigestBytes);
  reply.for_sub_agents = reader.optional_bool("for_sub_agents").value_or(false);
  const auto named = prompt_choice_from(choice);
  if (!named) {
    reader.refuse("answer", "answer must be one of those that the question offers");
  }
  if (const Status read = reader.finish(); !read) {
    return read.error();
  }
  reply.choice = *named;
  reply.by = "key:" + caller.credential;
  return reply;
}

/// The sandbox that is asked about. Its own creator does not answer: that is the agent's side.
Result<store::SandboxRow> find_asked(Services& services, const Caller& caller,
                                     const std::string& sandbox, const PromptReply& reply) {
  std::optional<store::SandboxRow> found;
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto row = find_sandbox(tx, caller, sandbox);
    if (!row) {
      return row.error();
    }
    if (row->created_by == caller.credential) {
      return Error{ErrorCode::kPermissionDenied,
                   "the key that made the sandbox does not answer for it: use another owner key",
                   "own_request"};
    }
    const std::string action = "approval." + std::string(name_of(reply.choice));
    found = std::move(*row);
    return tx.insert(audit_row(services.context, caller, action.c_str(), found->id));
  });
  return written ? Result<store::SandboxRow>(std::move(*found)) : written.error();
}

void reply_to(Services& services, const Caller& caller, Request request, Answer answer) {
  const auto name = approval_name_from(request.params[0]);
  if (!name) {
    return answer(refuse("approval_not_found", "no such question waits"));
  }
  const auto reply = read_reply(request, caller, name->prompt);
  if (!reply) {
    return answer(refuse(reply.error()));
  }
  const auto row = find_asked(services, caller, name->sandbox, *reply);
  if (!row) {
    return answer(refuse(row.error()));
  }
  services.fleet.call(
      {row->worker, "POST", "/v1/approvals", to_json(*reply), kAnswerWait, caller.trace},
      [answer](const Result<WorkerAnswer>& told) {
        if (told && told->status == 200) {
          return answer(json_answer(200, json::Object{{"answered", true}}));
        }
        const auto value =
            told ? json::parse(told->body) : Result<json::Value>(worker_unreachable());
        const std::string reason = value ? value->text("error") : "";
        for (const char* known : {"approval_not_found", "approval_changed", "not_offered"}) {
          if (reason == known) {
            return answer(refuse(known, value->text("message")));
          }
        }
        answer(refuse(worker_unreachable()));
      });
}

}  // namespace

void add_approval_routes(Api& api, Services& services) {
  const Waits waits = std::make_shared<std::atomic<std::size_t>>(0);
  api.on("GET", "/v1/approvals",
         [&services, waits](const Caller& caller, Request request, Answer answer) {
           list(services, waits, caller, request, answer);
         });
  api.on("POST", "/v1/approvals/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           reply_to(services, caller, request, answer);
         });
}

}  // namespace sandboxkit::control
