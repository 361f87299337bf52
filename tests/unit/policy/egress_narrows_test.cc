#include "sandboxkit/egress.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

using Texts = std::vector<std::string>;

EgressPolicy policy(const Texts& domains, const Texts& networks = {}) {
  auto made = EgressPolicy::create(domains, networks);
  REQUIRE(made);
  return *made;
}

/// Every list of at most two of the entries.
std::vector<Texts> small_lists(const Texts& entries) {
  std::vector<Texts> lists{{}};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    lists.push_back({entries[i]});
    for (std::size_t j = i + 1; j < entries.size(); ++j) {
      lists.push_back({entries[i], entries[j]});
    }
  }
  return lists;
}

std::vector<EgressTarget> targets(const Texts& hosts) {
  std::vector<EgressTarget> all;
  for (const std::string& host : hosts) {
    for (const char* port : {":80", ":443", ":8080"}) {
      all.push_back(*EgressTarget::from_authority(host + port));
      all.push_back(*EgressTarget::from_http_uri("http://" + host + port + "/"));
    }
  }
  return all;
}

/// Whether `narrow` allows nothing that `wide` does not, by trying it.
bool allows_no_more(const EgressPolicy& narrow, const EgressPolicy& wide,
                    const std::vector<EgressTarget>& all, const std::vector<IpAddress>& addresses) {
  for (const EgressTarget& target : all) {
    if (narrow.decide(target).allowed && !wide.decide(target).allowed) {
      return false;
    }
    for (const IpAddress& address : addresses) {
      if (narrow.decide_address(target, address).allowed &&
          !wide.decide_address(target, address).allowed) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a policy of names narrows another exactly when it allows nothing more") {
  const Texts entries = {"a.test",   "a.test:80",    "a.test:443",   "a.test:8080", "*.a.test",
                         "b.a.test", "b.a.test:443", "*.b.a.test",   "*.a.test:80", "c.test",
                         "*.c.test", "*.a.test:443", "*.b.a.test:80"};
  // A name that no entry has, under each wildcard, stands for all of them.
  const auto all = targets({"a.test", "b.a.test", "z.a.test", "z.b.a.test", "c.test", "z.c.test",
                            "ba.test", "other.test"});
  std::vector<EgressPolicy> policies;
  for (const Texts& list : small_lists(entries)) {
    policies.push_back(policy(list));
  }
  std::size_t narrower = 0;
  for (const EgressPolicy& narrow : policies) {
    for (const EgressPolicy& wide : policies) {
      const bool told = narrow.narrows(wide);
      if (told != allows_no_more(narrow, wide, all, {})) {
        CAPTURE(narrow.canonical());
        CAPTURE(wide.canonical());
        CHECK(told == allows_no_more(narrow, wide, all, {}));
      }
      narrower += told ? 1 : 0;
    }
  }
  CHECK(narrower > policies.size());
}

TEST_CASE("a policy with networks that narrows another allows nothing more, names and addresses") {
  const Texts entries = {"10.0.0.0/8",     "10.1.0.0/16",     "10.1.2.3/32",
                         "10.0.0.0/8:443", "10.1.0.0/16:443", "10.1.0.0/16:80"};
  auto all = targets({"a.test", "b.test", "10.1.2.3", "10.2.0.1", "203.0.114.1"});
  std::vector<IpAddress> addresses;
  for (const char* text : {"10.1.2.3", "10.1.9.9", "10.2.0.1", "93.184.216.34", "127.0.0.1"}) {
    addresses.push_back(*IpAddress::parse(text));
  }
  std::vector<EgressPolicy> policies;
  for (const Texts& domains : {Texts{}, Texts{"a.test"}, Texts{"a.test:443"}, Texts{"b.test:8080"},
                               Texts{"a.test", "b.test:8080"}}) {
    for (const Texts& networks : small_lists(entries)) {
      policies.push_back(policy(domains, networks));
    }
  }
  std::size_t narrower = 0;
  for (const EgressPolicy& narrow : policies) {
    CHECK(narrow.narrows(narrow));
    for (const EgressPolicy& wide : policies) {
      if (!narrow.narrows(wide)) {
        continue;
      }
      ++narrower;
      if (!allows_no_more(narrow, wide, all, addresses)) {
        CAPTURE(narrow.canonical());
        CAPTURE(wide.canonical());
        CHECK(false);
      }
    }
  }
  CHECK(narrower > policies.size());
}

TEST_CASE("the entries that allow more are named as they were written") {
  const EgressPolicy wide = policy({"*.Example.org", "db.test:5432"}, {"10.1.0.0/16"});
  CHECK(policy({"API.example.org", "db.test:5432"}, {"10.1.2.0/24"}).beyond(wide).empty());
  CHECK(policy({"Example.org", "db.test", "a.example.org"}, {"10.0.0.0/8", "10.1.0.0/17:443"})
            .beyond(wide) == Texts{"Example.org", "db.test", "10.0.0.0/8", "10.1.0.0/17:443"});
  CHECK(EgressPolicy::deny_all().narrows(wide));
  CHECK_FALSE(wide.narrows(EgressPolicy::deny_all()));
}

TEST_CASE("strictness about TLS is never taken away, and may be added") {
  const EgressPolicy loose = policy({"a.test"});
  const EgressPolicy strict = loose.with_strict_tls();
  CHECK(strict.narrows(loose));
  CHECK(strict.narrows(strict));
  CHECK(loose.beyond(strict) == Texts{"strict_tls"});
  CHECK(EgressPolicy::deny_all().beyond(strict) == Texts{"strict_tls"});
}
