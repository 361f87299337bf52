// The lines of the isolation card about what a sandbox reaches, and with which secrets.
#include "base/text.h"
#include "policy/isolation_card_lines.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace sandboxkit::policy {
namespace {

constexpr std::string_view kIsolated = "isolated-ns";
constexpr std::string_view kInternal = "internal-net";
constexpr const char* kEgressCapability = "egress";

/// `1 name`, `2 names`.
std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// Null for an unwalled sandbox.
const EgressPolicy* policy_in_force(const CardFacts& facts) {
  const EgressPolicy* ordered = facts.spec.egress.policy();
  const bool narrowed = ordered != nullptr && facts.narrowed && facts.narrowed_in_force;
  return narrowed ? &*facts.narrowed : ordered;
}

std::vector<CardDetail> policy_details(const EgressPolicy& policy) {
  return {{"allowed_domains", policy.allowed_domains()},
          {"allowed_networks", policy.allowed_networks()},
          {"strict_tls", policy.strict_tls()}};
}

std::vector<std::string> entries_of(const EgressPolicy& policy) {
  std::vector<std::string> entries = policy.allowed_domains();
  const auto& networks = policy.allowed_networks();
  entries.insert(entries.end(), networks.begin(), networks.end());
  return entries;
}

/// `2 names and 1 network: a.test, *.b.test, 10.0.0.0/8`, or "nothing".
std::string in_words(const EgressPolicy& policy) {
  const std::vector<std::string> entries = entries_of(policy);
  if (entries.empty()) {
    return "nothing";
  }
  std::string text;
  if (const auto names = policy.allowed_domains().size(); names > 0) {
    text = counted(names, "name");
  }
  if (const auto networks = policy.allowed_networks().size(); networks > 0) {
    text += (text.empty() ? "" : " and ") + counted(networks, "network");
  }
  return text + ": " + listed(entries);
}

bool can_do(const CardFacts& facts, const std::string& capability) {
  return facts.worker && std::ranges::find(facts.worker->capabilities, capability) !=
                             facts.worker->capabilities.end();
}

CardLine open_line(std::string statement, std::vector<std::string> entries = {}) {
  CardLine line{CardTopic::kLeftOpen, std::move(statement)};
  if (!entries.empty()) {
    line.details.push_back({"entries", std::move(entries)});
  }
  return line;
}

/// What the wall's structure leaves open, whatever the policy is.
void add_left_open_by_structure(const CardFacts& facts, bool has_networks, CardLines& lines) {
  if (facts.structure == kInternal) {
    lines.push_back(open_line(
        "On an engine that gives an internal network a default route (Docker 20.10) its broadcasts "
        "and multicasts reach UDP services of its worker's machine that listen on every address, "
        "unless `rp_filter` is 1 there."));
    lines.push_back(open_line(
        "Of its worker's addresses those are refused that it had when the sandbox was made."));
  }
  if (facts.structure == kLocalBox) {
    lines.push_back(open_line(
        "Its proxy reads what it sends as the same user, who opened no files: a hole in the proxy "
        "reaches that machine's network. About 45 names in the work tree are held by empty files "
        "while it runs; a machine that crashes may leave them."));
  }
  if (facts.structure == kIsolated) {
    lines.push_back(
        open_line("Its proxy reads what it sends on its worker's machine, as user 65534 who sees "
                  "no files but its own: a hole in the proxy reaches that machine's network."));
    if (has_networks) {
      lines.push_back(open_line(
          "Containers on a network that the engine got after the sandbox was made are reached when "
          "an allowed network names their addresses."));
    }
  }
}

void add_left_open_by_names(const EgressPolicy& policy, CardLines& lines) {
  std::vector<std::string> wildcards;
  std::ranges::copy_if(policy.allowed_domains(), std::back_inserter(wildcards),
                       [](const std::string& entry) { return entry.starts_with("*."); });
  if (!wildcards.empty()) {
    std::string statement =
        "A name under " + listed(wildcards) + " can carry data to the name servers of that domain.";
    lines.push_back(open_line(std::move(statement), std::move(wildcards)));
  }
  if (!policy.allowed_domains().empty()) {
    lines.push_back(open_line(
        policy.strict_tls()
            ? "TLS in a tunnel names the tunnel's host, and what it encrypts is not seen: a server "
              "that also answers for other names can be asked for them."
            : "Inside of a tunnel another host can be named (domain fronting) where the allowed "
              "one's server answers for it; strict TLS, which closes the plain form of that, is "
              "off."));
  }
}

std::string end_of(const LentSecret& lent, WallTime now) {
  if (lent.expires_at == WallTime{}) {
    return "It has no end of its own.";
  }
  const std::string time = to_rfc3339(lent.expires_at);
  return lent.expires_at <= now
             ? "It ended at " + time + ": requests for the domain are refused."
             : "It ends at " + time + "; requests for the domain are refused from then on.";
}

CardLine lent_line(const LentSecret& lent, WallTime now) {
  const bool plain = lent.domain.ends_with(":80");
  CardLine line{CardTopic::kSecrets,
                quoted(lent.name) + " is lent for " + lent.domain +
                    ": its proxy adds the value, the sandbox holds a placeholder. " +
                    end_of(lent, now)};
  if (plain) {
    line.statement += " It travels over plain http: who carries the packets reads it.";
  }
  line.details = {{"kind", std::string("lent")},
                  {"name", lent.name},
                  {"domain", lent.domain},
                  {"place", std::string(name_of(lent.place))}};
  if (lent.expires_at != WallTime{}) {
    line.details.push_back({"expires_at", to_rfc3339(lent.expires_at)});
    line.details.push_back({"expired", lent.expires_at <= now});
  }
  return line;
}

void add_lent(const CardFacts& facts, CardLines& lines) {
  for (const LentSecret& lent : facts.spec.secrets) {
    lines.push_back(lent_line(lent, facts.now));
  }
  if (!facts.spec.secrets.empty()) {
    lines.push_back({CardTopic::kSecrets,
                     "The server of a domain gets what is lent for it, and can give it back. For "
                     "https the proxy ends TLS there, with an authority that this sandbox alone "
                     "trusts."});
  } else if (is_over(facts.state) && facts.state != SandboxState::kLost &&
             facts.spec.egress.is_walled()) {
    lines.push_back(
        {CardTopic::kSecrets,
         "What may have been lent to it is no longer recorded: that goes with its end."});
  } else {
    lines.push_back({CardTopic::kSecrets, "No secret is lent to it."});
  }
}

void add_environment(const CardFacts& facts, CardLines& lines) {
  std::vector<std::string> names;
  for (const auto& [name, value] : facts.spec.env) {
    names.push_back(name);
  }
  std::string statement =
      names.empty() ? "Its create gave it no environment value."
                    : "Its create gave it " + counted(names.size(), "environment value") + " (" +
                          listed(names) +
                          "), which all of its processes read, which have no end of their own, and "
                          "which stand in the controller's store and in the engine.";
  statement += " What single commands and files brought in is not recorded.";
  CardLine line{CardTopic::kSecrets, std::move(statement)};
  line.details = {{"kind", std::string("environment")}, {"names", std::move(names)}};
  lines.push_back(std::move(line));
}

/// What the worker read back from its engine of this sandbox's own wall.
CardLine structure_line(const CardFacts& facts) {
  CardLine line{CardTopic::kWall, ""};
  if (facts.structure.empty()) {
    line.statement =
        "A wall was ordered, which stands before its first instruction; its worker has not told "
        "yet how it is made.";
    return line;
  }
  line.statement =
      facts.structure == kIsolated
          ? "It has no network interface but loopback; its proxy is a process of its worker's "
            "machine."
      : facts.structure == kLocalBox
          ? "It has no network interface but loopback; its proxy is a process of that person's "
            "user on the same machine."
      : facts.structure == kInternal
          ? "It is on one network alone, an internal one of its own, where its proxy is too."
          : "Its worker says that its wall is " + quoted(facts.structure) + ".";
  line.known = KnownBy::kStructural;
  if (facts.worker && !is_over(facts.state)) {
    line.at = facts.worker->reported;
  }
  line.details = {{"structure", facts.structure}};
  return line;
}

}  // namespace

void add_reach(const CardFacts& facts, CardLines& lines) {
  const EgressPolicy* policy = policy_in_force(facts);
  CardLine reach{CardTopic::kReach, ""};
  if (policy == nullptr) {
    reach.statement =
        "It has no wall: it reaches what its worker's network reaches, be it the internet or "
        "private "
        "networks. Nothing is refused and nothing is listed.";
    reach.details = {{"walled", false}};
  } else {
    reach.statement = entries_of(*policy).empty()
                          ? "It may reach nothing: its policy allows no name and no network."
                          : "By its proxy alone it may reach " + in_words(*policy) +
                                ". To what it may reach it can send whatever it has.";
    reach.details = policy_details(*policy);
    reach.details.insert(reach.details.begin(), {"walled", true});
    reach.details.push_back({"policy_hash", facts.policy_hash});
    reach.details.push_back({"narrowed", policy != facts.spec.egress.policy()});
  }
  lines.push_back(std::move(reach));
  if (policy != nullptr && facts.narrowed && !facts.narrowed_in_force) {
    lines.push_back({CardTopic::kReach,
                     "It is to be narrowed to " + in_words(*facts.narrowed) +
                         "; its worker has not said that this is in force, so count on the wider "
                         "policy.",
                     KnownBy::kDeclared,
                     {},
                     policy_details(*facts.narrowed)});
  }
  if (facts.recorded) {
    lines.push_back(
        {CardTopic::kReach,
         "For the next creation this is recorded, which changes nothing for this one: " +
             in_words(*facts.recorded) + ".",
         KnownBy::kDeclared,
         {},
         policy_details(*facts.recorded)});
  }
}

void add_wall(const CardFacts& facts, CardLines& lines) {
  if (!facts.spec.egress.is_walled()) {
    return;
  }
  lines.push_back(structure_line(facts));
  const std::string capability =
      kEgressCapability + (facts.structure.empty() ? std::string() : "." + facts.structure);
  // A probe after its end may have found another engine.
  if (is_over(facts.state) || !can_do(facts, capability)) {
    return;
  }
  lines.push_back({CardTopic::kWall,
                   facts.structure.empty()
                       ? "Its worker built throw-away sandboxes with walls on its engine and tried "
                         "from inside to get out: at least one kind of wall held."
                       : "Its worker built a throw-away sandbox with such a wall on its engine and "
                         "tried from inside to get out: the wall held. It was not tried from "
                         "inside of this one.",
                   KnownBy::kProbed,
                   {},
                   {{"capability", capability}}});
}

void add_left_open(const CardFacts& facts, CardLines& lines) {
  const EgressPolicy* policy = policy_in_force(facts);
  if (policy == nullptr) {
    return;
  }
  add_left_open_by_names(*policy, lines);
  const std::vector<std::string>& networks = policy->allowed_networks();
  if (!networks.empty()) {
    lines.push_back(open_line("Addresses inside of " + listed(networks) +
                                  " are reached by number, and when an allowed name leads there.",
                              networks));
  }
  add_left_open_by_structure(facts, !networks.empty(), lines);
}

void add_secrets(const CardFacts& facts, CardLines& lines) {
  add_lent(facts, lines);
  add_environment(facts, lines);
}

}  // namespace sandboxkit::policy
