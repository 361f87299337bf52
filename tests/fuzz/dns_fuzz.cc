// What comes from name servers, and what a sandbox sends to the name server that refuses.

#include "egress/dns_answer.h"
#include "egress/dns_refuser.h"
#include "egress/resolver.h"
#include "tests/fuzz/fuzz_input.h"

#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kHeader = 12;

void check_answer(std::string_view message, egress::AddressKind kind) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  const auto found = egress::addresses_in({bytes, message.size()}, kind, "ok.test");
  if (!found) {
    PROMISE(
        found.error().code == ErrorCode::kNotFound || found.error().code == ErrorCode::kUnavailable,
        "an unreadable answer is the server's fault");
    return;
  }
  PROMISE(!found->empty() && found->size() <= egress::Resolver::kMaxAnswers, "answers are bounded");
  for (const IpAddress& address : *found) {
    PROMISE(kind == egress::AddressKind::kV6 || !address.is_v6, "an A record is version 4");
    PROMISE(IpAddress::parse(address.to_string()) == address, "an address is what it shows");
    const std::string quad{static_cast<char>(address.bytes[0]), static_cast<char>(address.bytes[1]),
                           static_cast<char>(address.bytes[2]),
                           static_cast<char>(address.bytes[3])};
    PROMISE(address.is_v6 || message.find(quad) != std::string_view::npos,
            "and came in the answer");
  }
}

void check_refusal(std::string_view query) {
  const auto answer = egress::refuse_query(query);
  if (!answer) {
    return;
  }
  PROMISE(answer->size() >= kHeader + 5 && answer->size() <= query.size(), "it amplifies nothing");
  PROMISE(answer->substr(0, 2) == query.substr(0, 2), "it answers this query");
  PROMISE(answer->substr(kHeader) == query.substr(kHeader, answer->size() - kHeader),
          "it repeats the question");
  PROMISE((static_cast<unsigned char>((*answer)[2]) & 0x80U) != 0, "it is an answer");
  PROMISE((static_cast<unsigned char>((*answer)[3]) & 0x0fU) == 5, "and it refuses");
  PROMISE(answer->substr(4, 8) == std::string("\0\1\0\0\0\0\0\0", 8), "it holds no record");
  PROMISE(!egress::refuse_query(*answer), "two of them never talk to each other");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  if (choice % 3 == 0) {
    check_refusal(input.rest());
  } else {
    check_answer(input.rest(),
                 choice % 3 == 1 ? egress::AddressKind::kV4 : egress::AddressKind::kV6);
  }
  return 0;
}
