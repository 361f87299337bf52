// The wall's decisions against the plain oracle: every small world, and many large ones.

#include "sandboxkit/egress.h"

#include "policy/egress_address.h"
#include "policy/egress_name.h"
#include "tests/unit/policy/egress_oracle.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
namespace oracle = sandboxkit::egress_oracle;

namespace {

using Entries = std::vector<std::string>;

struct Question {
  EgressTarget target;
  oracle::Target plain;
};

Question question(const std::string& host, int port, bool connect) {
  const std::string authority = host + ":" + std::to_string(port);
  const bool bracketed = host.front() == '[';
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  return {connect ? EgressTarget::from_authority(authority).value()
                  : EgressTarget::from_http_uri("http://" + authority + "/").value(),
          {bare, port, connect, oracle::address(bare)}};
}

/// Each host at each port, asked in both ways.
std::vector<Question> questions(const Entries& hosts, const std::vector<int>& ports) {
  std::vector<Question> out;
  for (const std::string& host : hosts) {
    for (const int port : ports) {
      out.push_back(question(host, port, true));
      out.push_back(question(host, port, false));
    }
  }
  return out;
}

EgressReason reason_of(oracle::Answer answer) {
  switch (answer) {
    case oracle::Answer::kAllowed:
      return EgressReason::kAllowed;
    case oracle::Answer::kNotListed:
      return EgressReason::kNotInAllowList;
    case oracle::Answer::kWrongPort:
      return EgressReason::kPortNotAllowed;
    case oracle::Answer::kLiteral:
      return EgressReason::kIpLiteral;
    case oracle::Answer::kAddressClass:
      return EgressReason::kAddressClass;
  }
  return EgressReason::kAllowed;
}

/// Whether the verdict is the oracle's, with its reason and the very entry that decided.
bool agrees(const EgressVerdict& verdict, const oracle::Verdict& plain, const Entries& entries) {
  const std::string rule =
      plain.entry < 0 ? std::string() : entries[static_cast<std::size_t>(plain.entry)];
  return verdict.allowed == (plain.answer == oracle::Answer::kAllowed) &&
         verdict.reason == reason_of(plain.answer) && verdict.rule == rule;
}

/// The choices of up to three out of `count`, order included where it can matter.
template <typename Visit>
void each_choice(std::size_t count, const Visit& visit) {
  visit(std::vector<std::size_t>{});
  for (std::size_t i = 0; i < count; ++i) {
    visit(std::vector{i});
    for (std::size_t k = 0; k < count; ++k) {
      if (k == i) {
        continue;
      }
      visit(std::vector{i, k});
      for (std::size_t m = k + 1; k > i && m < count; ++m) {
        visit(std::vector{i, k, m});
      }
    }
  }
}

Entries small_entries() {
  Entries out;
  for (const char* name : {"a.b", "b.b", "ab.b", "a.a.b"}) {
    for (const char* star : {"", "*."}) {
      for (const char* port : {"", ":443", ":80"}) {
        out.push_back(std::string(star) + name + port);
      }
    }
  }
  return out;
}

/// All names of one to three labels out of `a`, `b` and `ab`, and those of four below `b`.
Entries small_hosts() {
  Entries out{"a", "b", "ab"};
  std::size_t begin = 0;
  for (int depth = 2; depth <= 3; ++depth) {
    const std::size_t end = out.size();
    for (std::size_t i = begin; i < end; ++i) {
      for (const char* label : {"a.", "b.", "ab."}) {
        out.push_back(label + out[i]);
      }
    }
    begin = end;
  }
  for (const char* name : {"a.a.a.b", "b.a.a.b", "a.b.a.b", "a.a.b.b", "ab.a.a.b", "a.ab.a.b"}) {
    out.emplace_back(name);
  }
  return out;
}

/// Every text of up to `longest` characters of `alphabet`.
template <typename Visit>
void each_text(const std::string& alphabet, std::size_t longest, const Visit& visit) {
  std::vector<std::size_t> at;
  std::string text;
  while (true) {
    visit(text);
    // The next one, as an odometer counts; one digit more when all have gone round.
    std::size_t i = at.size();
    while (i > 0 && at[i - 1] + 1 == alphabet.size()) {
      at[i - 1] = 0;
      text[i - 1] = alphabet[0];
      --i;
    }
    if (i > 0) {
      text[i - 1] = alphabet[++at[i - 1]];
    } else if (at.size() == longest) {
      return;
    } else {
      at.assign(at.size() + 1, 0);
      text.assign(at.size(), alphabet[0]);
    }
  }
}

}  // namespace

TEST_CASE("every policy of up to three small entries decides every small target as the oracle") {
  const Entries all = small_entries();
  const std::vector<Question> asked = questions(small_hosts(), {80, 443, 8080});
  std::size_t worlds = 0;
  std::size_t wrong = 0;
  each_choice(all.size(), [&](const std::vector<std::size_t>& chosen) {
    Entries entries;
    oracle::Policy plain;
    for (const std::size_t i : chosen) {
      entries.push_back(all[i]);
      plain.domains.push_back(*oracle::domain(all[i]));
    }
    const auto policy = EgressPolicy::create(entries, {});
    REQUIRE(policy.has_value());
    for (const Question& q : asked) {
      wrong += !agrees(policy->decide(q.target), oracle::decide(plain, q.plain), entries);
      ++worlds;
    }
  });
  CHECK(wrong == 0);
  CHECK(worlds == (1 + 24 + 24 * 23 + 24 * 23 * 22 / 6) * asked.size());
}

TEST_CASE("every policy of up to three small networks decides addresses as the oracle") {
  const Entries all{"10.0.0.0/8",    "10.0.0.0/31:443", "10.0.0.1/32:8080",
                    "10.0.0.2/31",   "8.8.8.8/32:80",   "fd00::/16",
                    "fd00::/127:80", "64:ff9b::/96",    "127.0.0.0/8"};
  const Entries literals{"10.0.0.0", "10.0.0.1",  "10.0.0.3",         "10.255.255.255",
                         "11.0.0.0", "8.8.8.8",   "127.0.0.1",        "169.254.169.254",
                         "[fd00::]", "[fd00::1]", "[64:ff9b::a00:1]", "[2001:db8::1]"};
  Entries hosts = literals;
  hosts.insert(hosts.end(), {"ok.test", "no.test"});
  const std::vector<Question> asked = questions(hosts, {80, 443, 8080});
  std::size_t wrong = 0;
  each_choice(all.size(), [&](const std::vector<std::size_t>& chosen) {
    const Entries domains{"ok.test", "ok.test:8080"};
    Entries networks;
    oracle::Policy plain{{*oracle::domain(domains[0]), *oracle::domain(domains[1])}, {}};
    for (const std::size_t i : chosen) {
      networks.push_back(all[i]);
      plain.networks.push_back(oracle::network(all[i]));
    }
    const auto policy = EgressPolicy::create(domains, networks);
    REQUIRE(policy.has_value());
    for (const Question& q : asked) {
      const auto named = oracle::decide(plain, q.plain);
      wrong += !agrees(policy->decide(q.target), named, q.plain.literal ? networks : domains);
      for (const std::string& text : literals) {
        const std::string bare = text.front() == '[' ? text.substr(1, text.size() - 2) : text;
        const auto answer = oracle::decide_address(plain, q.plain, *oracle::address(bare));
        const EgressVerdict verdict = policy->decide_address(q.target, *IpAddress::parse(bare));
        const bool by_network = q.plain.literal || (answer.answer == oracle::Answer::kAllowed &&
                                                    oracle::is_special(*oracle::address(bare)));
        wrong += !agrees(verdict, answer, by_network ? networks : domains);
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("large random policies decide random targets as the oracle") {
  std::mt19937 random(20261130);
  const Entries labels{"a", "b", "ab", "a-b", "_x", "1", "xn--bcher-kva", std::string(63, 'l')};
  const auto any_name = [&](std::size_t most) {
    std::string name = random() % 2 == 0 ? "test" : "b";
    for (std::size_t depth = 1 + random() % most; depth > 0; --depth) {
      const std::string longer = labels[random() % labels.size()] + "." + name;
      name = longer.size() <= 253 ? longer : name;
    }
    return name;
  };
  std::size_t allowed = 0;
  for (int round = 0; round < 60; ++round) {
    Entries entries;
    oracle::Policy plain;
    const std::size_t size = 1 + random() % EgressPolicy::kMaxDomains;
    for (std::size_t tries = 0; tries < 2 * size && entries.size() < size; ++tries) {
      constexpr const char* kPorts[] = {"", "", ":443", ":22"};
      const std::string entry =
          (random() % 3 == 0 ? "*." : "") + any_name(round % 2 == 0 ? 3 : 9) + kPorts[random() % 4];
      if (std::find(entries.begin(), entries.end(), entry) == entries.end()) {
        entries.push_back(entry);
        plain.domains.push_back(*oracle::domain(entry));
      }
    }
    const auto policy = EgressPolicy::create(entries, {});
    REQUIRE(policy.has_value());
    for (int i = 0; i < 300; ++i) {
      constexpr int kPorts[] = {443, 80, 22};
      const Question q = question(any_name(9), kPorts[random() % 3], random() % 2 == 0);
      const oracle::Verdict expected = oracle::decide(plain, q.plain);
      CAPTURE(q.plain.host);
      REQUIRE(agrees(policy->decide(q.target), expected, entries));
      allowed += expected.answer == oracle::Answer::kAllowed;
    }
  }
  CHECK(allowed > 500);  // The worlds are not all of one kind.
}

TEST_CASE("canonical texts are equal exactly where the entries decide alike, one by one") {
  Entries all = small_entries();
  all.insert(all.end(), {"A.b", "*.A.B:443", "a.b:00443", "b.B:80"});
  const std::vector<Question> asked = questions(small_hosts(), {80, 443, 8080});
  std::vector<std::vector<bool>> decisions;
  std::vector<EgressPolicy> policies;
  for (const std::string& entry : all) {
    const auto policy = EgressPolicy::create(Entries{entry}, {});
    if (!policy) {
      CHECK(entry == "a.b:00443");
      continue;
    }
    policies.push_back(*policy);
    decisions.emplace_back();
    for (const Question& q : asked) {
      decisions.back().push_back(policy->decide(q.target).allowed);
    }
  }
  std::size_t wrong = 0;
  std::size_t alike = 0;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (std::size_t k = 0; k < policies.size(); ++k) {
      const bool same = decisions[i] == decisions[k];
      wrong += (policies[i].canonical() == policies[k].canonical()) != same;
      alike += same && i != k;
      // Of two entries: the same set of decisions, however it is written.
      const Entries pair{policies[i].allowed_domains()[0], policies[k].allowed_domains()[0]};
      const Entries turned{pair[1], pair[0]};
      const auto forth = EgressPolicy::create(pair, {});
      const auto back = EgressPolicy::create(turned, {});
      wrong += forth.has_value() == same || back.has_value() == same;  // A second like the first.
      wrong += !same && (forth->canonical() != back->canonical() ||
                         forth->canonical() == policies[i].canonical() ||
                         forth->canonical() == policies[k].canonical());
    }
  }
  CHECK(wrong == 0);
  CHECK(alike == 6);
}

TEST_CASE("every short text is an entry exactly when the oracle's grammar has it") {
  std::size_t taken = 0;
  std::size_t wrong = 0;
  each_text("aB10.*:", 6, [&](const std::string& text) {
    const bool plain = oracle::domain(text).has_value();
    wrong += EgressPolicy::create(Entries{text}, {}).has_value() != plain;
    taken += plain;
  });
  CHECK(wrong == 0);
  CHECK(taken > 1000);
}

TEST_CASE("every short text is a target exactly when the oracle's grammar has it") {
  std::size_t taken = 0;
  std::size_t wrong = 0;
  each_text("aX10.-_", 6, [&](const std::string& text) {
    const auto plain = oracle::host(text);
    const auto target = EgressTarget::from_authority(text + ":443");
    const bool is_name = target && !target->address();
    wrong += is_name != plain.has_value() || (is_name && target->host() != *plain);
    taken += is_name;
  });
  CHECK(wrong == 0);
  CHECK(taken > 10000);
  // Up to five numbers in all their spellings: an address in its plain one, else nothing.
  const Entries numbers{"0", "1", "01", "255", "256", "0x1", "0x", ""};
  const auto check = [&](const std::string& text) {
    const auto target = EgressTarget::from_authority(text + ":443");
    const auto address = oracle::address(text);
    wrong += target.has_value() != address.has_value();
    wrong += target && oracle::text(*address) != target->host();
  };
  for (std::size_t count = 1; count <= 5; ++count) {
    std::size_t all = 1;
    for (std::size_t i = 0; i < count; ++i) {
      all *= numbers.size();
    }
    for (std::size_t n = 0; n < all; ++n) {
      std::string text;
      for (std::size_t i = 0, left = n; i < count; ++i, left /= numbers.size()) {
        text += (i == 0 ? "" : ".") + numbers[left % numbers.size()];
      }
      check(text);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every short text is an address exactly when the C library reads it strictly") {
  std::size_t taken = 0;
  std::size_t wrong = 0;
  const auto check = [&](const std::string& text) {
    const auto plain = oracle::address(text);
    const auto parsed = IpAddress::parse(text);
    wrong += parsed.has_value() != plain.has_value();
    if (parsed && plain) {
      wrong += oracle::address(parsed->to_string()) != plain;
      ++taken;
    }
  };
  each_text("0f:.", 8, check);
  CHECK(wrong == 0);
  CHECK(taken > 500);
  // Longer ones, out of whole groups.
  const Entries groups{"0", "1", "abcd", "", "10000", "1.2.3.4"};
  std::mt19937 random(1);
  for (int i = 0; i < 60000; ++i) {
    std::string text = groups[random() % groups.size()];
    for (std::size_t more = random() % 9; more > 0; --more) {
      text += ":" + groups[random() % 40 == 0 ? random() % groups.size() : random() % 4];
    }
    check(text);
  }
  CHECK(wrong == 0);
}
