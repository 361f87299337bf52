#include "sandboxkit/egress.h"

#include "base/text.h"
#include "tests/fuzz/fuzz_input.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

/// The rule of the document, written the slow and plain way: does this one entry allow the target?
bool entry_allows(const std::string& entry, const EgressTarget& target) {
  const auto colon = entry.find(':');
  std::string name = ascii_lower(entry.substr(0, colon));
  const std::string port = colon == std::string::npos
                               ? (target.scheme() == EgressScheme::kHttp ? "80" : "443")
                               : entry.substr(colon + 1);
  if (port != std::to_string(target.port())) {
    return false;
  }
  if (!name.starts_with("*.")) {
    return name == target.host();
  }
  name.erase(0, 1);  // `.example.org`: at least one label stands before it.
  return target.host().size() > name.size() && target.host().ends_with(name);
}

void check_target(const EgressTarget& target) {
  const std::string& host = target.host();
  PROMISE(!host.empty() && host.size() <= 253, "a host is a name or an address");
  PROMISE(std::ranges::all_of(host, [](char c) { return c > 0x20 && c < 0x7f; }), "visible ASCII");
  PROMISE(ascii_lower(host) == host, "in lower case");
  PROMISE(host.back() != '.' && host.front() != '.', "without a dot at an end");
  PROMISE(host.find("..") == std::string::npos, "and without an empty label");
  PROMISE(host.find_first_of("%@/\\#?*") == std::string::npos, "and nothing that could be more");
  PROMISE(target.port() != 0, "to a port");
  const auto back = EgressTarget::from_authority(target.to_string());
  PROMISE(back && back->host() == host && back->port() == target.port(), "what is shown is meant");
}

void check_verdict(const EgressPolicy& policy, const EgressTarget& target) {
  const EgressVerdict verdict = policy.decide(target);
  PROMISE(verdict.allowed == (verdict.reason == EgressReason::kAllowed), "a verdict has one side");
  PROMISE(!EgressPolicy::deny_all().decide(target).allowed, "nothing is allowed by nothing");
  if (!target.address()) {
    const bool plain = std::ranges::any_of(
        policy.allowed_domains(), [&](const auto& entry) { return entry_allows(entry, target); });
    PROMISE(verdict.allowed == plain, "the policy decides as the plain rule does");
  } else if (policy.allowed_networks().empty()) {
    PROMISE(!verdict.allowed, "an address needs a network");
  }
}

}  // namespace

/// Input: the target's line (`C authority` or `H uri`), then domains, a blank line, networks.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool is_uri = input.byte() == 'H';
  const std::string_view text = input.line();
  std::vector<std::string> domains;
  std::vector<std::string> networks;
  std::vector<std::string>* list = &domains;
  while (!input.rest().empty() && domains.size() + networks.size() < 32) {
    const std::string_view line = input.line();
    if (line.empty()) {
      list = &networks;
    } else {
      list->emplace_back(line);
    }
  }
  const auto target =
      is_uri ? EgressTarget::from_http_uri(text) : EgressTarget::from_authority(text);
  if (target) {
    check_target(*target);
  }
  const auto policy = EgressPolicy::create(domains, networks);
  if (!policy) {
    PROMISE(policy.error().code == ErrorCode::kInvalidArgument, "a refusal is the caller's to fix");
    PROMISE(policy.error().field.starts_with("allowed_"), "and names the entry");
    return 0;
  }
  const auto again = EgressPolicy::create(policy->allowed_domains(), policy->allowed_networks());
  PROMISE(again && again->canonical() == policy->canonical(), "a policy reads back");
  if (target) {
    check_verdict(*policy, *target);
  }
  return 0;
}
