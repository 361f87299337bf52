#pragma once

#include "sandboxkit/box_plan.h"

#include "gate/rule_index.h"
#include "gate/rules.h"
#include "gate/sight.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sandboxkit::gate {

/// Where something of the host begins to be seen in a box, as far as nothing denies it.
struct Start {
  std::string path;
  FileFacts facts;
  /// kReadOnly or kReadWrite.
  BoxAccess access;
  GateBranch branch;
  std::string rule;
  /// Looked through to its end. What every program reads is not.
  bool is_searched = true;
  /// A place of its own, even where its surroundings look alike.
  bool is_chosen = true;
};

/// What a box has around the starts: places of its own, and hidden ones of the host.
struct Ground {
  /// Empty and the box's own, or made by it (`/proc`, `/dev`).
  std::vector<std::string> own{};
  /// Hidden directories and files of the host, beside which everything can be read.
  std::vector<BoxPlace> hidden{};
  bool shows(std::string_view path) const;
};

/// Finds the places of a plan: it looks through the starts and notes each entry whose access is
/// another than that of the directory it lies in. The cost is linear in the entries.
class PlaceFinder {
 public:
  PlaceFinder(const PermissionGate::Rules& rules, const FileEyes& eyes, Ground ground,
              std::vector<Start> starts);

  /// Unix sockets that may be connected to: all others in the starts are hidden. Without any the
  /// box has no such sockets at all.
  void keep_sockets(const std::vector<std::string>& sockets);

  /// Errors: what keeps it from being complete; kTooLarge.
  Result<std::vector<BoxPlace>> find();

 private:
  /// What is said about an entry: by what lies above it, and by itself.
  struct State {
    BoxAccess by_roots = BoxAccess::kHide;
    BoxAccess by_grants = BoxAccess::kHide;
    GateBranch allowed_by = GateBranch::kAsk;
    std::string allowed_rule{};
    std::vector<Listed> hits{};
    /// What it comes to, and why.
    BoxAccess access = BoxAccess::kHide;
    GateBranch branch = GateBranch::kAsk;
    std::string rule{};
  };
  struct Directory {
    FileIdentity identity;
    std::size_t state;
  };
  /// What a directory holds of a bare repository.
  struct Shape {
    bool head = false;
    bool objects = false;
    bool refs = false;
    std::vector<std::string> loaded{};
  };

  State state_at(const std::string& path) const;
  void add_start(State& state, const Start& start) const;
  void settle(State& state, const std::string& path) const;
  BoxAccess access_at(const std::string& path) const;

  Status search(const std::string& path, const FileFacts& facts, bool skip_unreadable);
  Status search_starts();
  Status search_denials_elsewhere();
  Status meet(const std::string& path, const FileFacts& facts, bool is_top);
  Status add_other_names(State& state, const std::string& path, const FileFacts& facts);
  void add_hits_of(State& state, const FileIdentity& object);
  Status add_objects_above(State& state, const std::string& path);
  void note_shape(const std::string& path);
  void put(const std::string& path, const FileFacts& facts, const State& state);
  void put_absent(const std::string& path, const Rule& rule);

  void protect_bare_repositories();
  void protect_loaded(const std::string& directory, const Shape& shape);
  void add_absent_names();
  void add_absent_in(const std::string& directory, const PathName& name);
  void add_pins();
  bool leads_to_denied(const std::string& directory) const;

  const PermissionGate::Rules& rules_;
  const FileEyes& eyes_;
  const GateRequest request_{};
  Sight sight_;
  RuleIndex index_;
  Ground ground_;
  std::vector<Start> starts_;
  std::multimap<std::string, std::size_t, std::less<>> starts_at_;
  std::set<std::string, std::less<>> sockets_;
  /// Denials of names that begin at a place: they count above what they name as well.
  std::vector<const Rule*> anchored_;
  /// Folded name of a directory -> rules that name one plain thing directly in it.
  std::multimap<std::string, const Rule*, std::less<>> named_in_;

  std::vector<State> states_;
  std::unordered_map<std::string, Directory> directories_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, BoxPlace> places_;
};

}  // namespace sandboxkit::gate
