#pragma once

#include "policy/access.h"
#include "tests/unit/control/house.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::control {

/// Who calls in the test of all routes: a role with a credential that counts, or one of the many
/// ways to have none.
struct Visitor {
  std::string name;
  policy::Role role = policy::Role::kNobody;
  std::string credential{};
};

/// One call of a route, with what it needs to succeed on an object that is there.
struct Visit {
  std::string method;
  std::string pattern;
  std::string body{};
  int status = 0;       ///< On an own object, for whoever may; 0: anything but a refusal.
  std::string error{};  ///< Likewise.
};

/// Two workspaces and the unscoped fleet, each with one object of every kind.
class AccessWorld {
 public:
  AccessWorld();

  const std::vector<Visitor>& visitors() const { return visitors_; }
  /// A path on what the visitor owns. What a call ends is made anew for it, and so is the
  /// credential that goes with it.
  std::string own(const Visit& visit, Visitor& visitor);
  /// Paths on what others own, and one on what is nobody's.
  std::vector<std::string> foreign(const Visit& visit, const Visitor& visitor) const;
  std::string absent(const Visit& visit) const;
  /// A call as a stream route needs it.
  Answer call(const Visit& visit, const std::string& path, const Visitor& visitor, bool upgrade);

 private:
  /// What stands for each place of a pattern.
  struct Objects {
    std::string sandbox;
    std::string token;
    std::string worker;
    std::string join_token;
    std::string key;
  };
  std::string joined(const std::string& key, const char* member) const;
  std::string mint(const std::string& path, const std::string& body, const std::string& key,
                   const char* member) const;
  Objects objects_of(const std::string& key, const std::string& worker) const;
  static std::string filled(std::string pattern, const Objects& objects);

  House house_;
  std::string rival_key_;
  std::unique_ptr<FakeWorker> worker_;
  std::unique_ptr<FakeWorker> rival_worker_;
  std::string unscoped_worker_;
  Objects own_;
  Objects rival_;
  std::string other_sandbox_;  ///< Of the same workspace as `own_`.
  std::vector<Visitor> visitors_;
};

}  // namespace sandboxkit::control
