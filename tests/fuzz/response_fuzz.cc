#include "tests/fuzz/fuzz_input.h"
#include "wire/http.h"

#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr const char* kMethods[] = {"GET", "HEAD", "CONNECT", "POST"};
  fuzz::Input input(data, size);
  const std::string_view method = kMethods[input.byte() % 4U];
  const std::string_view text = input.rest().substr(0, wire::find_head_end(input.rest()));
  const auto head = wire::parse_response_head(text, method);
  if (!head) {
    return 0;
  }
  PROMISE(head->status >= 100 && head->status <= 599, "a status has three digits");
  const bool no_body = head->status < 200 || head->status == 204 || head->status == 304 ||
                       method == "HEAD" || (method == "CONNECT" && head->status / 100 == 2);
  PROMISE(!no_body || head->body.kind == wire::Framing::kNone, "such an answer has no body");
  PROMISE(no_body || head->body.kind != wire::Framing::kNone, "any other has one");
  PROMISE(head->body.kind != wire::Framing::kUntilClose || !head->keep_alive,
          "a body that ends with the connection ends it");
  const std::string written = wire::serialize(*head);
  const auto back = wire::parse_response_head(written, method, {.max_bytes = written.size()});
  PROMISE(back.has_value(), "what was written is read");
  PROMISE(wire::serialize(*back) == written, "and is written the same again");
  PROMISE(back->status == head->status && back->headers.fields() == head->headers.fields(),
          "with the same fields");
  PROMISE(back->body.kind == head->body.kind && back->body.length == head->body.length &&
              back->keep_alive == head->keep_alive,
          "and the same body");
  return 0;
}
