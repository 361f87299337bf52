// What an orchestrator does that links the core library: it places a sandbox and judges egress,
// with installed headers alone.
#include "sandboxkit/egress.h"
#include "sandboxkit/placement.h"
#include "sandboxkit/version.h"

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

int main() {
  using namespace sandboxkit;
  const auto tenant = TenantId::parse("acme");
  const auto worker = WorkerId::parse("w-1");
  const std::vector<std::string> domains{"packages.example.org"};
  const auto policy = EgressPolicy::create(domains, {});
  const auto target = EgressTarget::from_authority("packages.example.org:443");
  if (!tenant || !worker || !policy || !target || !policy->decide(*target).allowed) {
    return 1;
  }
  WorkerView view{.id = *worker, .scope = WorkerScope::only(*tenant)};
  view.capabilities = {"egress"};
  const PlacementRequest request{
      .tenant = *tenant, .image = "sandboxkit/base", .needs_egress_wall = true};
  const Decision decision = Scheduler(PlacementPolicy{}).schedule(request, {&view, 1}, 1);
  if (!std::holds_alternative<Placement>(decision)) {
    return 1;
  }
  std::printf("sandboxkit %s places on %s\n", version(),
              std::get<Placement>(decision).worker().str().c_str());
  return 0;
}
