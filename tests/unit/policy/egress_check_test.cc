#include "policy/egress_check.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using sandboxkit::EgressPolicy;
using sandboxkit::policy::check_egress;
using sandboxkit::policy::EgressQuestion;

namespace {

EgressPolicy sample_policy() {
  const std::vector<std::string> domains{"ok.test", "*.w.test", "git.test:22"};
  const std::vector<std::string> networks{"10.1.0.0/16"};
  return EgressPolicy::create(domains, networks).value();
}

}  // namespace

TEST_CASE("a question is answered as the proxy would, with the rule and the reason") {
  const struct {
    const char* what;
    EgressQuestion question;
    bool allowed;
    const char* target;
    const char* rule;
    const char* reason;
  } rows[] = {
      {"https is CONNECT 443",
       {.target = "https://OK.test/x"},
       true,
       "ok.test:443",
       "ok.test",
       "allowed"},
      {"http is port 80", {.target = "http://ok.test/x"}, true, "ok.test:80", "ok.test", "allowed"},
      {"host and port", {.target = "a.w.test:443"}, true, "a.w.test:443", "*.w.test", "allowed"},
      {"https with a port",
       {.target = "https://git.test:22/"},
       true,
       "git.test:22",
       "git.test:22",
       "allowed"},
      {"another port",
       {.target = "ok.test:22"},
       false,
       "ok.test:22",
       "ok.test",
       "port_not_allowed"},
      {"http on 443",
       {.target = "http://ok.test:443/"},
       false,
       "ok.test:443",
       "ok.test",
       "port_not_allowed"},
      {"another name",
       {.target = "https://evil.test/"},
       false,
       "evil.test:443",
       "",
       "not_in_allow_list"},
      {"an address", {.target = "https://192.0.2.1/"}, false, "192.0.2.1:443", "", "ip_literal"},
      {"an address of version 6",
       {.target = "https://[2001:db8::1]/"},
       false,
       "[2001:db8::1]:443",
       "",
       "ip_literal"},
      {"public answer",
       {.target = "ok.test:443", .resolved = "8.8.8.8"},
       true,
       "ok.test:443",
       "ok.test",
       "allowed"},
      {"metadata answer",
       {.target = "ok.test:443", .resolved = "169.254.169.254"},
       false,
       "ok.test:443",
       "ok.test",
       "resolved_address_denied"},
      {"lifted answer",
       {.target = "ok.test:443", .resolved = "10.1.2.3"},
       true,
       "ok.test:443",
       "10.1.0.0/16",
       "allowed"},
      {"odd answer",
       {.target = "ok.test:443", .resolved = "127.1"},
       false,
       "ok.test:443",
       "",
       "bad_address"},
      {"same server name",
       {.target = "ok.test:443", .tls_server_name = "Ok.Test"},
       true,
       "ok.test:443",
       "ok.test",
       "allowed"},
      {"fronting",
       {.target = "ok.test:443", .tls_server_name = "evil.test"},
       false,
       "ok.test:443",
       "ok.test",
       "sni_mismatch"},
      {"no server name",
       {.target = "ok.test:443", .tls_server_name = ""},
       false,
       "ok.test:443",
       "ok.test",
       "sni_absent"},
      {"server name without TLS",
       {.target = "http://ok.test/", .tls_server_name = "ok.test"},
       false,
       "ok.test:80",
       "ok.test",
       "sni_mismatch"},
      {"no port", {.target = "ok.test"}, false, "ok.test", "", "bad_target"},
      {"user name",
       {.target = "https://ok.test@evil.test/"},
       false,
       "https://ok.test@evil.test/",
       "",
       "bad_target"},
      {"other scheme", {.target = "ftp://ok.test/"}, false, "ftp://ok.test/", "", "bad_target"},
  };
  const EgressPolicy policy = sample_policy();
  for (const auto& row : rows) {
    CAPTURE(row.what);
    const auto answer = check_egress(policy, row.question);
    CHECK(answer.allowed == row.allowed);
    CHECK(answer.target == row.target);
    CHECK(answer.rule == row.rule);
    CHECK(answer.reason == row.reason);
  }
}

TEST_CASE("the policy that allows nothing answers no to everything") {
  for (const char* target : {"https://ok.test/", "http://ok.test/", "192.0.2.1:443", "[::1]:80"}) {
    CAPTURE(target);
    CHECK_FALSE(check_egress(EgressPolicy::deny_all(), {.target = target}).allowed);
  }
}
