#pragma once

#include "sandboxkit/fleet_index.h"

#include "policy/placement_pool.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sandboxkit {
namespace policy {

using Label = std::pair<std::string, std::string>;

/// Workers of one scope with the same traits. Labels are no trait: host names would make one class
/// a worker. Each label has a pool of its own instead.
struct WorkerClass {
  Pool all{};
  std::map<Label, Pool> by_label{};
};

using Classes = std::map<Traits, WorkerClass>;

struct Scope;

struct Node {
  WorkerView view;
  Scope* scope;
  Classes::iterator its_class;
  Entry entry{};
  /// Where it stands: its class's pool, and one a label.
  std::vector<Pool*> pools{};
};

/// A worker in the list of those that hold an image.
struct Holder {
  std::uint64_t hash;
  const Node* node;
};

struct ByHolder {
  bool operator()(const Holder& a, const Holder& b) const {
    return a.hash != b.hash ? a.hash < b.hash : a.node->view.id < b.node->view.id;
  }
};

struct NoSummary {
  void add(const Holder&) {}
};

using HolderList = BlockList<Holder, ByHolder, NoSummary>;
using Holders = std::map<std::string, HolderList>;

/// The workers of one tenant, or the unscoped ones. Holds nothing that is empty.
struct Scope {
  std::size_t workers = 0;
  Classes classes{};
  /// By image: who has it, and who has a warm sandbox of it.
  Holders images{};
  Holders warm{};
};

}  // namespace policy

struct FleetIndex::Impl {
  explicit Impl(PlacementPolicy own_policy) : policy(own_policy) {}

  /// The scope of that tenant, or of "" for the unscoped; nullptr when it is empty.
  const policy::Scope* scope_of(const std::string& tenant) const;

  void insert(WorkerView view);
  void change(policy::Node& node, WorkerView view);
  void take_out(policy::Node& node);

  PlacementPolicy policy;
  /// Never iterated: its order is no order.
  std::unordered_map<WorkerId, std::unique_ptr<policy::Node>> nodes{};
  std::map<std::string, policy::Scope> scopes{};
};

}  // namespace sandboxkit
