// policy.json, which a worker writes and a proxy reads once.

#include "egress/config.h"
#include "json/value.h"
#include "tests/fuzz/fuzz_input.h"

#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto config = egress::parse_config(input.rest());
  if (!config) {
    PROMISE(!config.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto value = json::parse(input.rest());
  PROMISE(value && value->as_object() != nullptr, "a policy file is an object");
  const json::Value* domains = value->find("allowed_domains");
  PROMISE(domains != nullptr && domains->as_array() != nullptr, "its list is there");
  PROMISE(config->policy.allowed_domains().size() == domains->as_array()->size(),
          "no entry is lost and none is made up");
  const json::Value* networks = value->find("allowed_networks");
  const std::size_t network_count =
      networks != nullptr && networks->as_array() != nullptr ? networks->as_array()->size() : 0;
  PROMISE(config->policy.allowed_networks().size() == network_count, "of neither list");
  for (const auto& [name, address] : config->hosts) {
    const auto target = EgressTarget::from_authority(name + ":443");
    PROMISE(target && target->host() == name && !target->address(), "a pinned name is a target's");
  }
  PROMISE(IpAddress::parse(config->listen.address).has_value(), "it listens on an address");
  return 0;
}
