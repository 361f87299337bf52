#include "sandboxkit/egress.h"

#include "policy/egress_name.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using namespace std::literals;

TEST_CASE("an authority is folded, loses one final dot, and keeps its port") {
  const struct {
    const char* authority;
    const char* text;
  } rows[] = {
      {"ok.test:443", "ok.test:443"},
      {"OK.TEST:443", "ok.test:443"},
      {"ok.test.:443", "ok.test:443"},
      {"a_b.ok.test:1", "a_b.ok.test:1"},
      {"redis:65535", "redis:65535"},
      {"192.0.2.7:443", "192.0.2.7:443"},
      {"[2001:DB8::1]:443", "[2001:db8::1]:443"},
      {"[::ffff:192.0.2.7]:443", "192.0.2.7:443"},
      {"r3---sn-4g5e.ok.test:443", "r3---sn-4g5e.ok.test:443"},
      {"xn--bcher-kva.test:443", "xn--bcher-kva.test:443"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.authority);
    const auto target = EgressTarget::from_authority(row.authority);
    REQUIRE(target.has_value());
    CHECK(target->to_string() == row.text);
    CHECK(target->scheme() == EgressScheme::kConnect);
  }
}

TEST_CASE("an authority that readers could take in two ways is refused") {
  // The numbers are those of the attack list of the wall.
  const std::string_view rows[] = {
      "ok.test..:443"sv,                 // 3
      ".w.test:443"sv,                   // 5
      "\xef\xbd\x8fk.test:443"sv,        // 7: full-width o
      "ok\xe3\x80\x82test:443"sv,        // 7: ideographic full stop
      "o\xe2\x84\xaa.test:443"sv,        // 7: Kelvin sign
      "\xef\xac\x81.test:443"sv,         // 7: ligature
      "o\xc2\xadk.test:443"sv,           // 7: soft hyphen
      "xn--\x31.test:443"sv,             // 8: too short to be punycode
      "xn--abc-.test:443"sv,             // 8
      "xn--99999999999.test:443"sv,      // 8: overflow
      "ok%2etest:443"sv,                 // 9
      "ex%61mple.test:443"sv,            // 9
      "evil.test\0.w.test:443"sv,        // 10
      "ok.test\0.evil:443"sv,            // 10
      "evil.test#.ok.test:443"sv,        // 12
      "evil.test\\@ok.test:443"sv,       // 12
      "evil.test?.ok.test:443"sv,        // 12
      "user@ok.test:443"sv,              // 12
      "ok.test/:443"sv,                  // 12
      "ok.test:443abc"sv,                // 14
      "ok.test:+443"sv,                  // 14
      "ok.test:0"sv,                     // 14
      "ok.test:65979"sv,                 // 14
      "ok.test:-1"sv,                    // 14
      "ok.test:"sv,                      // 14
      "ok.test"sv,                       // 14
      "ok.test:0443"sv,                  // 14
      "ok.test:443:443"sv,               // 14
      "ok.test:18446744073709552059"sv,  // 14: 443 + 2^64
      "2130706433:443"sv,                // 17
      "0x7f.1:443"sv,                    // 17
      "0x7f000001:443"sv,                // 17
      "0177.0.0.1:443"sv,                // 17
      "127.1:443"sv,                     // 17
      "127.0.0.1.:443"sv,                // 17
      "127.0.0.0x1:443"sv,               // 17
      "::1:443"sv,                       // 17
      "::ffff:127.0.0.1:443"sv,          // 17
      "[::1%eth0]:443"sv,                // 17
      "[fe80::1%25lo]:443"sv,            // 17
      "[127.0.0.1]:443"sv,
      "[::1]443"sv,
      "[::1:443"sv,
      "[ok.test]:443"sv,
      ""sv,
      ":443"sv,
      ".:443"sv,
      "-ok.test:443"sv,
      "ok-.test:443"sv,
      "ok.test :443"sv,
      " ok.test:443"sv,
      "ok.test:443 "sv,
      "ok.test:443\r\nHost: evil"sv,
      "ok.te\tst:443"sv,
      "*.ok.test:443"sv,
      "https://ok.test:443"sv,
  };
  for (const auto row : rows) {
    CAPTURE(std::string(row));
    const auto target = EgressTarget::from_authority(row);
    CHECK_FALSE(target.has_value());
  }
}

TEST_CASE("labels hold 63 bytes and names 253") {
  const std::string label(63, 'a');
  const std::string name = label + "." + label + "." + label + "." + std::string(61, 'a');
  REQUIRE(name.size() == 253);
  CHECK(EgressTarget::from_authority(label + ".test:443").has_value());
  CHECK_FALSE(EgressTarget::from_authority(label + "a.test:443").has_value());
  CHECK(EgressTarget::from_authority(name + ":443").has_value());
  CHECK(EgressTarget::from_authority(name + ".:443").has_value());
  CHECK_FALSE(EgressTarget::from_authority(name + "a:443").has_value());
}

TEST_CASE("an http URI gives its host and the default port 80") {
  const struct {
    const char* uri;
    const char* text;
  } rows[] = {
      {"http://ok.test/", "ok.test:80"},
      {"HTTP://OK.test./x?y", "ok.test:80"},
      {"http://ok.test", "ok.test:80"},
      {"http://ok.test?x=@:9/", "ok.test:80"},
      {"http://ok.test:8080/a:b", "ok.test:8080"},
      {"http://[2001:db8::1]/", "[2001:db8::1]:80"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.uri);
    const auto target = EgressTarget::from_http_uri(row.uri);
    REQUIRE(target.has_value());
    CHECK(target->to_string() == row.text);
    CHECK(target->scheme() == EgressScheme::kHttp);
  }
}

TEST_CASE("any other URI, and one that hides its host, is refused") {
  for (const std::string_view uri : {"https://ok.test/"sv,
                                     "ftp://ok.test/"sv,
                                     "/"sv,
                                     "*"sv,
                                     ""sv,
                                     "http:"sv,
                                     "http:/ok.test"sv,
                                     "http:///ok.test"sv,
                                     "ok.test/"sv,
                                     "http://ok.test:/"sv,
                                     "http://ok.test@evil.test/"sv,
                                     "http://evil.test\\@ok.test/"sv,
                                     "http://evil.test#@ok.test/"sv,
                                     "http://ok.test/#a"sv,
                                     "http://ok.test/a b"sv,
                                     "http://ok.test/\xc3\xa9"sv,
                                     "http://ok.test/\0"sv,
                                     "http://ok%2etest/"sv,
                                     "http://ok.test:99999/"sv,
                                     "http://ok.test/a\\b"sv,
                                     "http:\\\\ok.test/"sv,
                                     " http://ok.test/"sv,
                                     "http://ok.test/\x7f"sv}) {
    CAPTURE(std::string(uri));
    CHECK_FALSE(EgressTarget::from_http_uri(uri).has_value());
  }
}

TEST_CASE("a punycode label is taken when it decodes, the RFC's samples included") {
  for (const char* label :
       {"xn--bcher-kva", "xn--egbpdaj6bu4bxfgehfvwxn", "xn--ihqwcrb4cv8a8dqg056pqjye",
        "xn--ihqwctvzc91f659drss3x8bo0yb", "xn--4dbcagdahymbxekheh6e0a7fei0b",
        "xn--3b-ww4c5e180e575a65lsy2b", "xn--mnchen-3ya", "xn--e1afmkfd",
        // The last and the first code point beside the surrogates, and the last of all.
        "xn--hb9b", "xn--0y0c", "xn--dn32g"}) {
    CAPTURE(label);
    CHECK(policy::is_punycode_label(label));
  }
  for (const char* label : {"bcher-kva", "xn--", "xn---", "xn--a-", "xn----", "xn--0", "xn--zz",
                            "xn--ib9b", "xn--zy0c", "xn--en32g", "xn--_x", "xn--a_b-"}) {
    CAPTURE(label);
    CHECK_FALSE(policy::is_punycode_label(label));
  }
}
