#include "docker/proxy_questions.h"

#include "docker/helper_call.h"
#include "docker/observed.h"

#include <chrono>
#include <string>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::chrono::milliseconds kProxyTimeout{5000};
constexpr int kConflict = 409;

Result<HelperReply> ask(HelperLink& proxy, const HelperRequest& request) {
  auto connection = proxy.connect();
  return connection ? call_helper(std::move(*connection), request, kProxyTimeout)
                    : Result<HelperReply>(connection.error());
}

}  // namespace

Result<std::vector<DeniedEgress>> ask_denied(HelperLink& proxy) {
  const auto reply = ask(proxy, {"/denied"});
  if (!reply) {
    return reply.error();
  }
  if (reply->status != 200) {
    return Error{ErrorCode::kUnavailable,
                 "the egress proxy answered status " + std::to_string(reply->status)};
  }
  return read_denied(reply->body);
}

Status tell_narrowed(HelperLink& proxy, const egress::NarrowedPolicy& narrowed) {
  const auto reply = ask(proxy, {"/narrow", egress::write_narrowed(narrowed)});
  if (!reply) {
    return reply.error();
  }
  if (reply->status == kConflict) {
    return Error{ErrorCode::kConflict, "the egress proxy has a narrower policy in force",
                 "policy_widens"};
  }
  if (reply->status < 200 || reply->status >= 300) {
    return Error{ErrorCode::kUnavailable,
                 "the egress proxy did not narrow its policy: it answered "
                 "status " +
                     std::to_string(reply->status)};
  }
  return {};
}

}  // namespace sandboxkit::docker
