// Fleet: blocks of addresses, and the networks that sandboxes share.
#include "base/random.h"
#include "base/text.h"
#include "docker/fleet.h"

#include <fstream>
#include <iterator>
#include <utility>

namespace sandboxkit::docker {
namespace {

/// How many blocks of the pool are tried when others take them at the same time.
constexpr int kSubnetTries = 16;

std::string routes_text() {
  std::ifstream file("/proc/net/route");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Whether the engine refused a network because its subnet is taken.
bool says_overlap(const Error& error) { return error.message.find("overlap") != std::string::npos; }

}  // namespace

Result<std::string> Fleet::shared_network(Role role) {
  const std::lock_guard lock(shared_mutex_);
  const auto networks = engine_.get("/networks?" + filters_for(owner_));
  if (!networks) {
    return networks.error();
  }
  auto found = read_shared_network(*networks, owner_, role);
  if (!found) {
    return found.error();
  }
  return *found ? Result<std::string>(**found) : make_shared_network(role);
}

Result<std::string> Fleet::make_shared_network(Role role) {
  std::vector<Subnet> tried;
  Result<std::string> made = Error{ErrorCode::kInternal, "no network was tried"};
  for (int tries = 0; tries < kSubnetTries; ++tries) {
    const auto subnet = reserve(kSharedPrefix);
    if (!subnet) {
      made = subnet.error();
      break;
    }
    tried.push_back(*subnet);
    const auto answer =
        engine_.call(EngineCall{.method = "POST",
                                .target = "/networks/create",
                                .body = json::dump(shared_network_body(owner_, role, *subnet))});
    made = answer ? Result<std::string>(answer->text("Id")) : Result<std::string>(answer.error());
    if (made || !says_overlap(made.error())) {
      break;
    }
  }
  for (const Subnet& subnet : tried) {
    release(subnet);
  }
  return made;
}

/// A block of the pool that neither the engine, nor the host's routes, nor a create under way has.
Result<Subnet> Fleet::reserve(int prefix) {
  const auto networks = engine_.get("/networks");
  if (!networks) {
    return networks.error();
  }
  std::vector<Subnet> taken = subnets_of_networks(*networks);
  const std::vector<Subnet> routes = subnets_of_routes(routes_text());
  taken.insert(taken.end(), routes.begin(), routes.end());
  // A random place, so that two workers of one engine rarely want the same.
  const auto start = static_cast<std::uint32_t>(system_random().next_u64());
  const auto found = reserved_.with([&](auto& reserved) {
    taken.insert(taken.end(), reserved.begin(), reserved.end());
    const auto block = free_subnet(pool_, prefix, taken, start);
    if (block) {
      reserved.push_back(*block);
    }
    return block;
  });
  if (!found) {
    return Error{ErrorCode::kResourceExhausted,
                 "no free /" + std::to_string(prefix) + " is left in the subnet pool " +
                     sandboxkit::quoted(pool_.to_string()) + "; give the worker another pool"};
  }
  return *found;
}

void Fleet::release(const Subnet& subnet) {
  reserved_.with([&](auto& reserved) { std::erase(reserved, subnet); });
}

/// Builds in a block that nobody has. The engine says whether somebody was faster.
Result<Built> Fleet::in_free_subnet(const std::function<Result<Built>(const Subnet&)>& build,
                                    const std::function<Status()>& undo) {
  std::vector<Subnet> refused;
  Result<Built> built = Error{ErrorCode::kInternal, "no wall was tried"};
  for (int tries = 0; tries < kSubnetTries; ++tries) {
    const auto subnet = reserve(kWallPrefix);
    if (!subnet) {
      built = subnet.error();
      break;
    }
    refused.push_back(*subnet);
    built = build(*subnet);
    if (built || !says_overlap(built.error()) || !undo()) {
      break;
    }
  }
  // Kept until here, so that no refused block is tried twice. One that is used is the engine's now.
  for (const Subnet& subnet : refused) {
    release(subnet);
  }
  return built;
}

}  // namespace sandboxkit::docker
