#include "policy/isolation_card.h"

#include "base/text.h"
#include "policy/hardening.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::policy;  // NOLINT(google-build-using-namespace)

namespace {

using Strings = std::vector<std::string>;

constexpr const char* kSecretValue = "s3cret-that-nobody-may-read";
constexpr const char* kVariableValue = "value-of-a-variable";

WallTime at(const char* time) {
  const auto parsed = parse_rfc3339(time);
  REQUIRE(parsed);
  return *parsed;
}

EgressPolicy policy_of(const Strings& domains, const Strings& networks = {}) {
  auto policy = EgressPolicy::create(domains, networks);
  REQUIRE(policy);
  return *policy;
}

CardFacts facts_of(Egress egress) {
  CardFacts facts{.spec = SandboxSpec{.image = "base", .egress = std::move(egress)},
                  .workspace = "acme",
                  .state = SandboxState::kRunning};
  facts.started = at("2030-01-01T09:00:00.000Z");
  facts.expires = at("2030-01-01T12:00:00.000Z");
  facts.now = at("2030-01-01T11:00:00.000Z");
  facts.record_kept = std::chrono::hours{48};
  return facts;
}

CardFacts unwalled() { return facts_of(Egress::unwalled(UnwalledEgress{})); }
CardFacts walled(const EgressPolicy& policy) { return facts_of(Egress::walled(policy)); }

std::vector<CardLine> lines_of(const CardFacts& facts, CardTopic topic) {
  std::vector<CardLine> found;
  for (const CardLine& line : isolation_card(facts)) {
    if (line.topic == topic) {
      found.push_back(line);
    }
  }
  return found;
}

CardLine only_line(const CardFacts& facts, CardTopic topic) {
  auto lines = lines_of(facts, topic);
  REQUIRE(lines.size() == 1);
  return lines.front();
}

/// The lines of a topic as one text.
std::string text_of(const CardFacts& facts, CardTopic topic) {
  std::string text;
  for (const CardLine& line : lines_of(facts, topic)) {
    text += line.statement + "\n";
  }
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <typename T>
T fact_of(const CardLine& line, const std::string& name) {
  const auto found = std::ranges::find(line.details, name, &CardDetail::name);
  REQUIRE(found != line.details.end());
  const T* value = std::get_if<T>(&found->value);
  REQUIRE(value != nullptr);
  return *value;
}

LentSecret lent(std::string name, std::string domain) {
  return LentSecret{.name = std::move(name),
                    .domain = std::move(domain),
                    .key = "Authorization",
                    .value = kSecretValue};
}

/// Everything that a card says, for programs too.
std::string whole(const CardFacts& facts) {
  struct Text {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const Strings& values) const {
      std::string all;
      for (const std::string& value : values) {
        all += value + "\n";
      }
      return all;
    }
  };
  std::string text;
  for (const CardLine& line : isolation_card(facts)) {
    text += line.statement + "\n";
    for (const CardDetail& each : line.details) {
      text += each.name + "=" + std::visit(Text{}, each.value) + "\n";
    }
  }
  return text;
}

const SandboxState kStates[] = {
    SandboxState::kPending, SandboxState::kStarting, SandboxState::kRunning,
    SandboxState::kPaused,  SandboxState::kStopping, SandboxState::kStopped,
    SandboxState::kError,   SandboxState::kLost,     SandboxState::kDeleted};

CardFacts proven(const char* structure, Strings capabilities) {
  CardFacts facts = walled(policy_of({"a.test"}));
  facts.structure = structure;
  facts.worker = CardWorker{false, std::move(capabilities), at("2030-01-01T10:59:59.000Z")};
  return facts;
}

}  // namespace

TEST_CASE("a hardened sandbox is not root, and the card says what keeps it from it") {
  const CardLine line = only_line(unwalled(), CardTopic::kRoot);
  CHECK(line.statement.starts_with("Not root"));
  CHECK(line.known == KnownBy::kDeclared);
  CHECK(fact_of<std::string>(line, "profile") == "hardened");
  CHECK(fact_of<bool>(line, "no_new_privileges"));
  CHECK(fact_of<Strings>(line, "capabilities").empty());
}

TEST_CASE("in the profile sudo root is possible, with the capabilities that an engine is told") {
  CardFacts facts = unwalled();
  facts.spec.profile = HardeningProfile::kSudo;
  const CardLine line = only_line(facts, CardTopic::kRoot);
  CHECK(line.statement.starts_with("Root inside of its container is possible"));
  CHECK_FALSE(fact_of<bool>(line, "no_new_privileges"));
  const Strings kept = fact_of<Strings>(line, "capabilities");
  const auto ordered = hardening_of(HardeningProfile::kSudo).capabilities;
  CHECK(kept == Strings(ordered.begin(), ordered.end()));
  CHECK(has(line.statement, "SETUID"));
  CHECK_FALSE(has(line.statement, "NET_ADMIN"));
}

TEST_CASE("without a wall the card says so plainly, and nothing of walls") {
  const CardFacts facts = unwalled();
  const CardLine line = only_line(facts, CardTopic::kReach);
  CHECK(line.statement.starts_with("It has no wall"));
  CHECK_FALSE(fact_of<bool>(line, "walled"));
  CHECK(lines_of(facts, CardTopic::kWall).empty());
  CHECK(lines_of(facts, CardTopic::kLeftOpen).empty());
}

TEST_CASE("a wall without a door reaches nothing, and leaves no name open") {
  CardFacts facts = walled(EgressPolicy::deny_all());
  const CardLine line = only_line(facts, CardTopic::kReach);
  CHECK(line.statement.starts_with("It may reach nothing"));
  CHECK(fact_of<bool>(line, "walled"));
  CHECK(fact_of<Strings>(line, "allowed_domains").empty());
  CHECK(lines_of(facts, CardTopic::kLeftOpen).empty());
}

TEST_CASE("what a walled sandbox may reach stands on the card with the policy's hash") {
  CardFacts facts = walled(policy_of({"a.test", "*.b.test"}, {"10.0.0.0/8"}));
  facts.policy_hash = "abc";
  const CardLine line = only_line(facts, CardTopic::kReach);
  CHECK(has(line.statement, "2 names and 1 network: a.test, *.b.test, 10.0.0.0/8"));
  CHECK(line.known == KnownBy::kDeclared);
  CHECK(fact_of<std::string>(line, "policy_hash") == "abc");
  CHECK(fact_of<Strings>(line, "allowed_networks") == Strings{"10.0.0.0/8"});
  CHECK_FALSE(fact_of<bool>(line, "narrowed"));
}

TEST_CASE("a long policy is cut in the sentence and whole in the details") {
  Strings domains;
  for (int i = 0; i < 9; ++i) {
    domains.push_back("h" + std::to_string(i) + ".test");
  }
  const CardLine nine = only_line(walled(policy_of(domains)), CardTopic::kReach);
  CHECK(has(nine.statement, "h7.test and 1 more"));
  CHECK_FALSE(has(nine.statement, "h8.test"));
  CHECK(fact_of<Strings>(nine, "allowed_domains") == domains);
  domains.pop_back();
  CHECK_FALSE(has(text_of(walled(policy_of(domains)), CardTopic::kReach), "more"));
}

TEST_CASE("a narrowing counts once the worker said so, and before that the wider policy does") {
  CardFacts facts = walled(policy_of({"a.test", "b.test"}));
  facts.narrowed = policy_of({"a.test"});
  const auto before = lines_of(facts, CardTopic::kReach);
  REQUIRE(before.size() == 2);
  CHECK(has(before[0].statement, "b.test"));
  CHECK(has(before[1].statement, "count on the wider policy"));
  facts.narrowed_in_force = true;
  const CardLine after = only_line(facts, CardTopic::kReach);
  CHECK_FALSE(has(after.statement, "b.test"));
  CHECK(fact_of<bool>(after, "narrowed"));
}

TEST_CASE("what is recorded for the next creation changes nothing of what is reached now") {
  CardFacts facts = unwalled();
  facts.recorded = policy_of({"next.test"});
  const auto lines = lines_of(facts, CardTopic::kReach);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].statement.starts_with("It has no wall"));
  CHECK(has(lines[1].statement, "next.test"));
  CHECK(has(lines[1].statement, "changes nothing"));
}

TEST_CASE("a wall is structural only once its worker has read it back") {
  CardFacts facts = proven("", {});
  CardLine line = only_line(facts, CardTopic::kWall);
  CHECK(line.known == KnownBy::kDeclared);
  CHECK_FALSE(line.at);
  for (const char* structure : {"isolated-ns", "internal-net"}) {
    CAPTURE(structure);
    facts.structure = structure;
    line = only_line(facts, CardTopic::kWall);
    CHECK(line.known == KnownBy::kStructural);
    CHECK(line.at == facts.worker->reported);
    CHECK(fact_of<std::string>(line, "structure") == structure);
  }
  facts.worker.reset();
  CHECK_FALSE(only_line(facts, CardTopic::kWall).at);
}

TEST_CASE("a probe is claimed for the structure that was tried, never for this sandbox") {
  CHECK(
      lines_of(proven("isolated-ns", {"egress", "egress.internal-net"}), CardTopic::kWall).size() ==
      1);
  const auto lines =
      lines_of(proven("isolated-ns", {"egress", "egress.isolated-ns"}), CardTopic::kWall);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].known == KnownBy::kProbed);
  CHECK(has(lines[1].statement, "not tried from inside of this one"));
  CHECK(fact_of<std::string>(lines[1], "capability") == "egress.isolated-ns");
  CHECK(has(lines_of(proven("", {"egress"}), CardTopic::kWall).at(1).statement, "at least one"));
}

TEST_CASE("nothing but the two lines of the wall is more than declared") {
  CardFacts facts = proven("internal-net", {"egress", "egress.internal-net", "secrets"});
  facts.spec.secrets = {lent("TOKEN", "a.test")};
  for (const CardLine& line : isolation_card(facts)) {
    CAPTURE(line.statement);
    CHECK((line.topic == CardTopic::kWall) == (line.known != KnownBy::kDeclared));
  }
}

TEST_CASE("the card says what a policy leaves open") {
  const auto open = [](const EgressPolicy& policy) {
    return text_of(walled(policy), CardTopic::kLeftOpen);
  };
  CHECK_FALSE(has(open(policy_of({"a.test"})), "name servers"));
  CHECK(has(open(policy_of({"a.test", "*.b.test"})),
            "A name under *.b.test can carry data to the name servers"));
  CHECK(has(open(policy_of({"a.test"})), "domain fronting"));
  const std::string strict = open(policy_of({"a.test"}).with_strict_tls());
  CHECK_FALSE(has(strict, "domain fronting"));
  CHECK(has(strict, "what it encrypts is not seen"));
  CHECK(has(open(policy_of({}, {"10.0.0.0/8"})), "10.0.0.0/8"));
  CHECK_FALSE(has(open(policy_of({}, {"10.0.0.0/8"})), "domain fronting"));
}

TEST_CASE("the card says what each structure leaves open, and of an unknown one nothing") {
  const auto open = [](const char* structure, const Strings& networks) {
    CardFacts facts = walled(policy_of({"a.test"}, networks));
    facts.structure = structure;
    return text_of(facts, CardTopic::kLeftOpen);
  };
  CHECK(has(open("internal-net", {}), "broadcasts"));
  CHECK_FALSE(has(open("internal-net", {}), "user 65534"));
  CHECK(has(open("isolated-ns", {}), "user 65534"));
  CHECK_FALSE(has(open("isolated-ns", {}), "broadcasts"));
  CHECK_FALSE(has(open("isolated-ns", {}), "the engine got after"));
  CHECK(has(open("isolated-ns", {"10.0.0.0/8"}), "the engine got after"));
  CHECK(open("", {}) == open("other", {}));
}

TEST_CASE("each lent secret stands there with its domain and its end") {
  CardFacts facts = walled(policy_of({"a.test", "b.test:80", "c.test"}));
  facts.spec.secrets = {lent("FIRST", "a.test"), lent("SECOND", "b.test:80"),
                        lent("THIRD", "c.test")};
  facts.spec.secrets[0].expires_at = at("2030-01-01T11:30:00.000Z");
  facts.spec.secrets[2].expires_at = facts.now;
  const auto lines = lines_of(facts, CardTopic::kSecrets);
  REQUIRE(lines.size() == 5);
  CHECK(has(lines[0].statement, "`FIRST` is lent for a.test"));
  CHECK(has(lines[0].statement, "It ends at 2030-01-01T11:30:00.000Z"));
  CHECK_FALSE(fact_of<bool>(lines[0], "expired"));
  CHECK(has(lines[1].statement, "no end of its own"));
  CHECK(has(lines[1].statement, "plain http"));
  CHECK_FALSE(has(lines[0].statement, "plain http"));
  CHECK(has(lines[2].statement, "It ended at 2030-01-01T11:00:00.000Z"));
  CHECK(fact_of<bool>(lines[2], "expired"));
}

TEST_CASE("environment values are named, and what came otherwise is not claimed to be known") {
  CardFacts facts = unwalled();
  CHECK(has(text_of(facts, CardTopic::kSecrets), "No secret is lent to it."));
  CHECK(has(text_of(facts, CardTopic::kSecrets), "gave it no environment value"));
  facts.spec.env = {{"A", "1"}, {"B", "2"}};
  const CardLine line = lines_of(facts, CardTopic::kSecrets).back();
  CHECK(has(line.statement, "2 environment values (A, B)"));
  CHECK(has(line.statement, "not recorded"));
  CHECK(fact_of<Strings>(line, "names") == Strings{"A", "B"});
}

TEST_CASE("of a sandbox that ended it is not claimed that nothing was lent to it") {
  CardFacts facts = walled(policy_of({"a.test"}));
  facts.state = SandboxState::kStopped;
  CHECK(has(text_of(facts, CardTopic::kSecrets), "no longer recorded"));
  CHECK_FALSE(has(text_of(facts, CardTopic::kSecrets), "No secret is lent"));
  facts.state = SandboxState::kLost;  // Its secrets are kept until it is known to be gone.
  CHECK(has(text_of(facts, CardTopic::kSecrets), "No secret is lent"));
}

TEST_CASE("no value of a secret or a variable is on the card, whatever the sandbox's state is") {
  CardFacts facts = proven("isolated-ns", {"egress.isolated-ns"});
  facts.spec.secrets = {lent("TOKEN", "a.test")};
  facts.spec.env = {{"PASSWORD", kVariableValue}};
  for (const SandboxState state : kStates) {
    CAPTURE(name_of(state));
    facts.state = state;
    const std::string text = whole(facts);
    CHECK(has(text, "TOKEN"));
    CHECK(has(text, "PASSWORD"));
    CHECK_FALSE(has(text, kSecretValue));
    CHECK_FALSE(has(text, kVariableValue));
  }
}

TEST_CASE(
    "no other run shares an ephemeral sandbox's files, and of a disk that stays less is said") {
  CardFacts facts = unwalled();
  CHECK(has(text_of(facts, CardTopic::kFiles), "No other run shares its files"));
  facts.spec.persistence = Persistence::kWorkspace;
  CHECK_FALSE(has(text_of(facts, CardTopic::kFiles), "No other run"));
}

TEST_CASE("the card says when it ends and what goes then") {
  CardFacts facts = unwalled();
  CardLine line = only_line(facts, CardTopic::kEnd);
  CHECK(has(line.statement, "ends at 2030-01-01T12:00:00.000Z"));
  CHECK(has(line.statement, "its disk"));
  CHECK(has(line.statement, "for 2 days"));
  facts.state = SandboxState::kStopped;
  facts.reason = "timeout";
  facts.ended = at("2030-01-01T10:00:00.000Z");
  line = only_line(facts, CardTopic::kEnd);
  CHECK(line.statement.starts_with("It ended at 2030-01-01T10:00:00.000Z (timeout)."));
  CHECK(fact_of<std::string>(line, "state") == "stopped");
  facts.state = SandboxState::kStopping;
  CHECK(only_line(facts, CardTopic::kEnd).statement.starts_with("It is being ended"));
  facts.state = SandboxState::kLost;
  CHECK(has(only_line(facts, CardTopic::kEnd).statement, "is not known"));
}

TEST_CASE("statements about a sandbox that does not run are about what held") {
  CardFacts facts = proven("internal-net", {"egress.internal-net"});
  facts.state = SandboxState::kDeleted;
  for (const CardTopic topic : {CardTopic::kRoot, CardTopic::kReach, CardTopic::kWall,
                                CardTopic::kLeftOpen, CardTopic::kKernel}) {
    for (const CardLine& line : lines_of(facts, topic)) {
      CHECK(line.statement.starts_with("While it ran: "));
      CHECK_FALSE(line.at);
    }
  }
  CHECK_FALSE(has(text_of(facts, CardTopic::kSecrets), "While it ran"));
  CHECK(lines_of(facts, CardTopic::kWall).size() == 1);  // A later probe says nothing of it.
  facts.state = SandboxState::kLost;
  CHECK(only_line(facts, CardTopic::kWall).statement.starts_with("As last known: "));
  facts.state = SandboxState::kError;
  facts.started.reset();
  CHECK(only_line(facts, CardTopic::kRoot).statement.starts_with("As it was ordered: "));
}

TEST_CASE("a shared kernel is said, and no more of a runtime than was ordered") {
  struct Row {
    const char* runtime;
    const char* shared;
    const char* says;
  };
  for (const Row& row : {Row{"", "assumed", "Count on one kernel"},
                         Row{"runc", "yes", "It shares its worker's kernel (runtime `runc`)"},
                         Row{"runsc", "unknown", "was not tried"}}) {
    CAPTURE(row.runtime);
    CardFacts facts = unwalled();
    facts.spec.runtime = row.runtime;
    const CardLine line = lines_of(facts, CardTopic::kKernel).front();
    CHECK(fact_of<std::string>(line, "shared_kernel") == row.shared);
    CHECK(has(line.statement, row.says));
    CHECK(has(text_of(facts, CardTopic::kKernel), "seccomp"));
  }
}

TEST_CASE("who else is on its worker is said when the worker is known") {
  CardFacts facts = unwalled();
  CHECK(lines_of(facts, CardTopic::kKernel).size() == 2);
  facts.worker = CardWorker{true, {}};
  CHECK(has(text_of(facts, CardTopic::kKernel), "every workspace"));
  facts.worker->serves_every_workspace = false;
  CHECK(has(text_of(facts, CardTopic::kKernel), "this workspace alone"));
}

TEST_CASE("who may open it: the workspace and its tokens, which not everybody may count") {
  CardFacts facts = unwalled();
  auto lines = lines_of(facts, CardTopic::kAccess);
  CHECK(has(lines.front().statement, "Owners and members of the workspace `acme` may open it"));
  CHECK(std::ranges::find(lines.front().details, "tokens", &CardDetail::name) ==
        lines.front().details.end());
  facts.tokens = Strings{"t1"};
  lines = lines_of(facts, CardTopic::kAccess);
  CHECK(has(lines.front().statement, "(tokens that count: 1);"));
  CHECK(fact_of<Strings>(lines.front(), "tokens") == Strings{"t1"});
  CHECK(has(lines.back().statement, "administers"));
  facts.state = SandboxState::kStopped;
  CHECK_FALSE(has(text_of(facts, CardTopic::kAccess), "may open it"));
}

TEST_CASE("every card has a line of each topic in the order of topics") {
  for (const SandboxState state : kStates) {
    CardFacts facts = proven("internal-net", {"egress.internal-net"});
    facts.state = state;
    std::vector<CardTopic> topics;
    for (const CardLine& line : isolation_card(facts)) {
      topics.push_back(line.topic);
      CHECK(line.statement.ends_with("."));
    }
    CHECK(std::ranges::is_sorted(topics));
    const auto end = std::unique(topics.begin(), topics.end());
    CHECK(std::distance(topics.begin(), end) == 9);
  }
}

TEST_CASE("a box on a person's machine has a card that promises neither a disk nor another user") {
  CardFacts facts = walled(policy_of({"ok.test"}));
  facts.structure = "local-box";
  facts.worker = CardWorker{false, {"approvals", "egress"}};
  CHECK(only_line(facts, CardTopic::kRoot).statement.starts_with("It is a box"));
  CHECK(only_line(facts, CardTopic::kFiles).statement.find("own work tree") != std::string::npos);
  CHECK(only_line(facts, CardTopic::kEnd).statement.find("disk") == std::string::npos);
  for (const CardLine& line : isolation_card(facts)) {
    CAPTURE(line.statement);
    CHECK(line.statement.find("user 1000") == std::string::npos);
    CHECK(line.statement.find("container") == std::string::npos);
  }
}

TEST_CASE("without a box the card says that there is none") {
  CardFacts facts = unwalled();
  facts.worker = CardWorker{false, {"approvals"}};
  CHECK(only_line(facts, CardTopic::kRoot).statement.starts_with("There is no box"));
}
