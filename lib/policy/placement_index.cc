#include "policy/placement_index.h"

namespace sandboxkit {
namespace policy {
namespace {

void add_holder(Holders& holders, const std::string& image, const Node& node) {
  holders[image].insert({node.entry.hash, &node});
}

void drop_holder(Holders& holders, const std::string& image, const Node& node) {
  const auto found = holders.find(image);
  found->second.erase({node.entry.hash, &node});
  if (found->second.empty()) {
    holders.erase(found);
  }
}

bool is_warm(const std::map<std::string, std::int64_t>& warm, const std::string& image) {
  const auto found = warm.find(image);
  return found != warm.end() && found->second > 0;
}

/// Takes the node out of the lists of images that it holds now and `next` does not, and the other
/// way round: `step` is `drop_holder` or `add_holder`.
template <typename Step>
void for_what_differs(const WorkerView& has, const WorkerView& lacks, Node& node, Step step) {
  for (const std::string& image : has.images) {
    if (!lacks.images.contains(image)) {
      step(node.scope->images, image, node);
    }
  }
  for (const auto& [image, count] : has.warm) {
    if (count > 0 && !is_warm(lacks.warm, image)) {
      step(node.scope->warm, image, node);
    }
  }
}

std::vector<Pool*> pools_of(WorkerClass& its_class, const WorkerView& view) {
  std::vector<Pool*> pools = {&its_class.all};
  for (const auto& label : view.labels) {
    pools.push_back(&its_class.by_label[Label(label)]);
  }
  return pools;
}

void drop_empty_pools(Node& node) {
  WorkerClass& its_class = node.its_class->second;
  for (const auto& label : node.view.labels) {
    const auto found = its_class.by_label.find(Label(label));
    if (found->second.empty()) {
      its_class.by_label.erase(found);
    }
  }
  if (its_class.all.empty()) {
    node.scope->classes.erase(node.its_class);
  }
}

bool same_pools(const WorkerView& a, const WorkerView& b) {
  return a.scope.tenant_or_empty() == b.scope.tenant_or_empty() &&
         a.capabilities == b.capabilities && a.runtimes == b.runtimes && a.arch == b.arch &&
         a.taints == b.taints && a.labels == b.labels;
}

}  // namespace
}  // namespace policy

const policy::Scope* FleetIndex::Impl::scope_of(const std::string& tenant) const {
  const auto found = scopes.find(tenant);
  return found != scopes.end() ? &found->second : nullptr;
}

void FleetIndex::Impl::insert(WorkerView view) {
  policy::Scope& scope = scopes[view.scope.tenant_or_empty()];
  const auto its_class = scope.classes.try_emplace(policy::traits_of(view)).first;
  const WorkerId id = view.id;
  auto node = std::make_unique<policy::Node>(
      policy::Node{.view = std::move(view), .scope = &scope, .its_class = its_class});
  node->entry = policy::entry_of(policy, node->view);
  ++scope.workers;
  node->pools = policy::pools_of(its_class->second, node->view);
  for (policy::Pool* pool : node->pools) {
    pool->insert(node->entry);
  }
  const WorkerView nothing{.id = id, .scope = node->view.scope};
  policy::for_what_differs(node->view, nothing, *node, policy::add_holder);
  nodes.emplace(id, std::move(node));
}

void FleetIndex::Impl::change(policy::Node& node, WorkerView view) {
  policy::for_what_differs(node.view, view, node, policy::drop_holder);
  policy::for_what_differs(view, node.view, node, policy::add_holder);
  node.view = std::move(view);
  const policy::Entry before = node.entry;
  node.entry = policy::entry_of(policy, node.view);
  for (policy::Pool* pool : node.pools) {
    pool->change(before, node.entry);
  }
}

void FleetIndex::Impl::take_out(policy::Node& node) {
  const WorkerView nothing{.id = node.view.id, .scope = node.view.scope};
  policy::for_what_differs(node.view, nothing, node, policy::drop_holder);
  for (policy::Pool* pool : node.pools) {
    pool->erase(node.entry);
  }
  policy::drop_empty_pools(node);
  if (--node.scope->workers == 0) {
    scopes.erase(node.view.scope.tenant_or_empty());
  }
}

FleetIndex::FleetIndex(PlacementPolicy policy) : impl_(std::make_unique<Impl>(policy)) {}
FleetIndex::~FleetIndex() = default;
FleetIndex::FleetIndex(FleetIndex&&) noexcept = default;
FleetIndex& FleetIndex::operator=(FleetIndex&&) noexcept = default;

void FleetIndex::put(WorkerView worker) {
  const auto found = impl_->nodes.find(worker.id);
  if (found != impl_->nodes.end() && policy::same_pools(found->second->view, worker)) {
    impl_->change(*found->second, std::move(worker));
    return;
  }
  erase(worker.id);
  impl_->insert(std::move(worker));
}

bool FleetIndex::erase(const WorkerId& id) {
  const auto found = impl_->nodes.find(id);
  if (found == impl_->nodes.end()) {
    return false;
  }
  impl_->take_out(*found->second);
  impl_->nodes.erase(found);
  return true;
}

const WorkerView* FleetIndex::find(const WorkerId& id) const {
  const auto found = impl_->nodes.find(id);
  return found != impl_->nodes.end() ? &found->second->view : nullptr;
}

std::size_t FleetIndex::size() const { return impl_->nodes.size(); }

const PlacementPolicy& FleetIndex::policy() const { return impl_->policy; }

}  // namespace sandboxkit
