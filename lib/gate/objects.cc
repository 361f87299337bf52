#include "gate/objects.h"

#include <string>
#include <utility>

namespace sandboxkit {
namespace gate {

Objects look_at_objects(const PermissionGate::Rules& rules, const FileEyes& eyes) {
  Objects objects;
  const auto add = [&](const Rule& rule, const std::string& path) {
    const auto seen = eyes.look({.cwd = "/", .path = path});
    if (seen && seen->file) {
      objects[seen->file->identity].push_back(&rule);
    }
  };
  for_each_rule(rules, [&](const Rule& rule) {
    const bool starts_anywhere = rule.pattern.path().empty();
    if (rule.pattern.is_bare_name() && rule.pattern.is_literal() && !rule.spares_directories) {
      add(rule, rules.session.home + "/" + rule.pattern.text());
    } else if (rule.pattern.is_literal() && !starts_anywhere) {
      add(rule, rule.pattern.path());
    }
  });
  return objects;
}

}  // namespace gate

ProtectedObjects::ProtectedObjects(std::shared_ptr<const Seen> seen) : seen_(std::move(seen)) {}

ProtectedObjects PermissionGate::look_at_protected(const FileEyes& eyes) const {
  return ProtectedObjects(std::make_shared<const ProtectedObjects::Seen>(
      ProtectedObjects::Seen{rules_, gate::look_at_objects(*rules_, eyes)}));
}

}  // namespace sandboxkit
