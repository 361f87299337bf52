// What `PUT /secrets` takes, and a request of a sandbox to which a lent secret is added.

#include "egress/secret_book.h"
#include "egress/secret_request.h"
#include "tests/fuzz/fuzz_input.h"
#include "wire/http.h"

#include <array>
#include <string>
#include <variant>
#include <vector>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::string_view kHeaderValue = "Bearer 0123456789abcdef";
constexpr std::string_view kQueryValue = "qqqq&1234=5678";

void check_order(std::string_view text) {
  auto order = egress::parse_secret_order(text);
  if (!order) {
    PROMISE(!order.error().message.empty(), "a refusal says why");
    return;
  }
  std::vector<std::string> destinations;
  for (const LentSecret& secret : order->secrets) {
    PROMISE(validate(secret).has_value(), "what was read is well formed");
    destinations.push_back(egress::lent_to(secret));
  }
  const std::string written = egress::write_secret_order(*order);
  const auto again = egress::parse_secret_order(written);
  PROMISE(again && egress::write_secret_order(*again) == written, "an order reads back");
  egress::SecretBook book(destinations);
  const bool taken = book.put(*std::move(order)).has_value();
  for (const std::string& destination : destinations) {
    const auto target = EgressTarget::from_authority(destination);
    if (target && book.ends_tls(*target) && !taken) {
      PROMISE(std::holds_alternative<egress::Refusal>(book.find(*target, WallTime{})),
              "what was not taken whole lends nothing");
    }
  }
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

void check_request(std::string_view text) {
  static const std::array<LentSecret, 2> kLent{LentSecret{.name = "A",
                                                          .domain = "api.test",
                                                          .place = SecretPlace::kHeader,
                                                          .key = "Authorization",
                                                          .value = std::string(kHeaderValue)},
                                               LentSecret{.name = "B",
                                                          .domain = "api.test",
                                                          .place = SecretPlace::kQuery,
                                                          .key = "key",
                                                          .value = std::string(kQueryValue)}};
  const auto head = wire::parse_request_head(text.substr(0, wire::find_head_end(text)));
  if (!head || count(text, "0123456789abcdef") != 0) {
    return;
  }
  const std::array placed{egress::place(kLent[0]), egress::place(kLent[1])};
  static const auto kTarget = EgressTarget::from_authority("api.test:443").value();
  auto plan = egress::plan_lent(*head, kTarget, placed);
  if (const auto* refusal = std::get_if<egress::Refusal>(&plan)) {
    PROMISE(refusal->status == 400 || refusal->status == 405 || refusal->status == 421,
            "a refusal is the client's fault");
    return;
  }
  const auto& request = std::get<egress::ForwardRequest>(plan);
  const auto sent = wire::parse_request_head(request.head, {.max_bytes = request.head.size()});
  PROMISE(sent.has_value() && wire::find_head_end(request.head) == request.head.size(),
          "what goes on is a request of one head");
  PROMISE(*sent->headers.find("host") == "api.test", "to the host of the connection");
  PROMISE(sent->headers.count("authorization") == 1 &&
              *sent->headers.find("authorization") == kHeaderValue,
          "with the secret in its place, and nothing of the client's there");
  PROMISE(count(request.head, placed[1].value.view()) >= 1, "in the query as well");
  egress::SecretMask mask;
  mask.add(kLent[0]);
  mask.add(kLent[1]);
  PROMISE(count(mask.hide_in(request.head), "0123456789abcdef") == 0,
          "an answer that repeats it does not show it");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  if (input.byte() % 2 == 0) {
    check_order(input.rest());
  } else {
    check_request(input.rest());
  }
  return 0;
}
