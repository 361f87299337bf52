#include "sandboxkit/egress.h"

#include "base/text.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/policy/egress_oracle.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
namespace oracle = sandboxkit::egress_oracle;

namespace {

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

/// The entry that decided, as the oracle has it.
std::string rule_of(const oracle::Verdict& plain, const std::vector<std::string>& entries) {
  return plain.entry < 0 ? std::string() : entries[static_cast<std::size_t>(plain.entry)];
}

void check_verdict(const EgressPolicy& policy, const EgressTarget& target,
                   const std::vector<std::string>& answers) {
  oracle::Policy plain;
  for (const std::string& entry : policy.allowed_domains()) {
    const auto domain = oracle::domain(entry);
    PROMISE(domain.has_value(), "an entry that is taken has the grammar of the design");
    plain.domains.push_back(*domain);
  }
  for (const std::string& entry : policy.allowed_networks()) {
    plain.networks.push_back(oracle::network(entry));
  }
  const oracle::Target asked{target.host(), target.port(),
                             target.scheme() == EgressScheme::kConnect,
                             oracle::address(target.host())};
  PROMISE(asked.literal.has_value() == target.address().has_value(), "an address is an address");
  const EgressVerdict verdict = policy.decide(target);
  const oracle::Verdict expected = oracle::decide(plain, asked);
  PROMISE(verdict.allowed == (verdict.reason == EgressReason::kAllowed), "a verdict has one side");
  PROMISE(!EgressPolicy::deny_all().decide(target).allowed, "nothing is allowed by nothing");
  PROMISE(verdict.allowed == (expected.answer == oracle::Answer::kAllowed),
          "the policy decides as the plain rule does");
  const auto& entries = asked.literal ? policy.allowed_networks() : policy.allowed_domains();
  PROMISE(verdict.rule == rule_of(expected, entries), "by the same entry");
  for (const std::string& text : answers) {
    const auto address = IpAddress::parse(text);
    PROMISE(address.has_value() == oracle::address(text).has_value(), "an answer is read alike");
    if (address) {
      PROMISE(policy.decide_address(target, *address).allowed ==
                  (oracle::decide_address(plain, asked, *oracle::address(text)).answer ==
                   oracle::Answer::kAllowed),
              "and judged alike");
    }
  }
}

}  // namespace

/// Input: the target's line (`C authority` or `H uri`), then domains, a blank line, networks, a
/// blank line, addresses that the name resolves to.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool is_uri = input.byte() == 'H';
  const std::string_view text = input.line();
  std::vector<std::string> domains;
  std::vector<std::string> networks;
  std::vector<std::string> answers;
  std::vector<std::string>* list = &domains;
  while (!input.rest().empty() && domains.size() + networks.size() + answers.size() < 32) {
    const std::string_view line = input.line();
    if (line.empty()) {
      list = list == &domains ? &networks : &answers;
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
    check_verdict(*policy, *target, answers);
  }
  return 0;
}
