#include "policy/egress_check.h"

#include "base/text.h"
#include "policy/egress_name.h"

#include <utility>

namespace sandboxkit::policy {
namespace {

constexpr std::string_view kHttps = "https://";
constexpr std::string_view kHttp = "http://";

bool has_scheme(std::string_view text, std::string_view scheme) {
  return equal_ignoring_case(text.substr(0, scheme.size()), scheme);
}

/// What a client does with an https:// URL: CONNECT to its host, port 443 unless it names one.
Result<EgressTarget> target_of_https(std::string_view url) {
  // The http rules refuse what clients read in different ways; they hold here too.
  auto checked = EgressTarget::from_http_uri("http://" + std::string(url.substr(kHttps.size())));
  if (!checked) {
    return checked;
  }
  const std::string_view rest = url.substr(kHttps.size());
  std::string authority(rest.substr(0, rest.find_first_of("/?")));
  const auto colon = authority.rfind(':');
  const bool has_port =
      colon != std::string::npos && authority.find(']', colon) == std::string::npos;
  return EgressTarget::from_authority(has_port ? authority : authority + ":443");
}

Result<EgressTarget> read_target(std::string_view text) {
  if (has_scheme(text, kHttps)) {
    return target_of_https(text);
  }
  if (has_scheme(text, kHttp)) {
    return EgressTarget::from_http_uri(text);
  }
  return EgressTarget::from_authority(text);
}

EgressAnswer refuse(EgressAnswer answer, const char* reason, std::string message) {
  answer.allowed = false;
  answer.reason = reason;
  answer.message = std::move(message);
  return answer;
}

bool is_same_name(const EgressTarget& target, std::string_view server_name) {
  if (server_name.ends_with('.')) {
    server_name.remove_suffix(1);
  }
  const auto name = parse_name(server_name);
  return name && !target.address() && *name == target.host();
}

}  // namespace

EgressVerdict judge_server_name(const EgressTarget& target, EgressVerdict allowed,
                                std::string_view server_name) {
  if (target.scheme() == EgressScheme::kConnect && is_same_name(target, server_name)) {
    return allowed;
  }
  return {false, server_name.empty() ? EgressReason::kSniAbsent : EgressReason::kSniMismatch,
          std::move(allowed.rule)};
}

EgressAnswer check_egress(const EgressPolicy& policy, const EgressQuestion& question) {
  EgressAnswer answer{.target = question.target};
  const auto target = read_target(question.target);
  if (!target) {
    return refuse(std::move(answer), "bad_target", target.error().message);
  }
  answer.target = target->to_string();
  EgressVerdict verdict = policy.decide(*target);
  if (verdict.allowed && question.resolved) {
    const auto address = IpAddress::parse(*question.resolved);
    if (!address) {
      return refuse(std::move(answer), "bad_address",
                    quoted(*question.resolved) + " is no address in its plain spelling");
    }
    verdict = policy.decide_address(*target, *address);
  }
  if (verdict.allowed && question.tls_server_name) {
    verdict = judge_server_name(*target, std::move(verdict), *question.tls_server_name);
    answer.message = verdict.allowed ? "" : "the TLS server name is not the CONNECT host";
  }
  answer.allowed = verdict.allowed;
  answer.rule = verdict.rule;
  answer.reason = name_of(verdict.reason);
  return answer;
}

}  // namespace sandboxkit::policy
