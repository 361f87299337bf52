// The card's lines of agent mode: a sandbox that is a box in a person's own work tree.
#include "policy/isolation_card_lines.h"

#include <algorithm>

namespace sandboxkit::policy {
namespace {

constexpr const char* kAsksPeople = "approvals";
constexpr const char* kBoxed = "egress";

bool worker_can(const CardFacts& facts, const char* what) {
  return facts.worker &&
         std::ranges::find(facts.worker->capabilities, what) != facts.worker->capabilities.end();
}

}  // namespace

bool is_agent_mode(const CardFacts& facts) {
  return facts.structure == kLocalBox || worker_can(facts, kAsksPeople);
}

void add_box_root(const CardFacts& facts, CardLines& lines) {
  const bool boxed = facts.structure == kLocalBox || worker_can(facts, kBoxed);
  lines.push_back(
      {CardTopic::kRoot,
       boxed ? "It is a box on a person's machine: its processes run as that person's user, in "
               "namespaces of their own, without any capability, and no-new-privileges is on."
             : "There is no box: nothing is judged, and its processes have every right of the "
               "worker's user on that machine.",
       KnownBy::kDeclared,
       {},
       {{"agent_mode", true}, {"boxed", boxed}, {"no_new_privileges", boxed}}});
}

void add_box_files(const CardFacts& /*facts*/, CardLines& lines) {
  lines.push_back({CardTopic::kFiles,
                   "It works in a person's own work tree: what it changes there stays, and that "
                   "person's programs see it at once. What it may see and change besides is for "
                   "the permission gate of its worker to say, which may ask that person.",
                   KnownBy::kDeclared,
                   {},
                   {{"agent_mode", true}}});
}

void add_box_kernel(const CardFacts& facts, CardLines& lines) {
  lines.push_back({CardTopic::kKernel,
                   "It shares its worker's kernel: a hole in that kernel is a hole in the sandbox. "
                   "Neither memory nor processor time is limited.",
                   KnownBy::kDeclared,
                   {},
                   {{"shared_kernel", std::string("yes")}, {"limits", false}}});
  if (facts.structure == kLocalBox) {
    lines.push_back({CardTopic::kKernel,
                     "System calls are filtered (seccomp): sockets of IPv4 and IPv6 alone, unless "
                     "somebody granted a unix socket; no mounts, no namespaces, no tracing out.",
                     KnownBy::kDeclared,
                     {},
                     {{"seccomp", std::string("sandboxkit")}}});
  }
}

}  // namespace sandboxkit::policy
