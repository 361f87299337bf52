#include "tests/fuzz/fuzz_input.h"
#include "wire/http.h"
#include "wire/trace.h"

#include <algorithm>
#include <optional>
#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

struct Decoded {
  bool whole = false;
  std::string payload{};
  std::size_t left = 0;
};

/// Feeds `text` in pieces of `step` bytes; nullopt when it is refused.
std::optional<Decoded> decode(wire::BodyFraming framing, std::string_view text, std::size_t step) {
  wire::BodyDecoder decoder(framing);
  Decoded out;
  while (!text.empty() && !decoder.done()) {
    std::string_view piece = text.substr(0, step);
    const std::size_t offered = piece.size();
    if (!decoder.feed(piece, out.payload)) {
      return std::nullopt;
    }
    PROMISE(piece.empty() || decoder.done(), "bytes are left only behind the end");
    text.remove_prefix(offered - piece.size());
  }
  out.whole = decoder.done();
  out.left = text.size();
  return out;
}

void check_target(const std::string& target) {
  const auto parsed = wire::parse_target(target);
  if (!parsed) {
    return;
  }
  const std::string walled = parsed->path + "/";
  PROMISE(walled.find("/../") == std::string::npos, "no path climbs");
  PROMISE(walled.find("/./") == std::string::npos, "no path stands still");
  PROMISE(parsed->path.find('\0') == std::string::npos, "no path holds a NUL");
  PROMISE(std::ranges::count(parsed->path, '/') == std::ranges::count(parsed->raw_path, '/'),
          "decoding makes no segment");
}

void check_body(wire::BodyFraming framing, std::string_view body, std::size_t step) {
  const auto whole = decode(framing, body, std::max<std::size_t>(body.size(), 1));
  const auto cut = decode(framing, body, step);
  PROMISE(whole.has_value() == cut.has_value(), "a body is refused however it is cut");
  if (!whole) {
    return;
  }
  PROMISE(whole->payload == cut->payload, "a body reads the same however it is cut");
  PROMISE(whole->left == cut->left, "and ends at the same byte");
  PROMISE(whole->payload.size() <= body.size(), "no byte is made up");
  const std::string again = wire::chunk(whole->payload) + std::string(wire::kLastChunk);
  const auto back = decode({.kind = wire::Framing::kChunked}, again, step);
  PROMISE(back && back->whole && back->payload == whole->payload, "chunks read back");
}

/// Whatever a caller sent, one valid id of each kind goes on.
void check_trace(wire::Headers headers) {
  const wire::Trace sent = wire::trace_of(headers);
  const wire::Trace trace = wire::admit_trace(headers, {});
  PROMISE(wire::is_request_id(trace.request_id) && wire::is_traceparent(trace.traceparent),
          "ids are valid");
  PROMISE(sent.request_id.empty() || sent.request_id == trace.request_id, "a valid id is kept");
  PROMISE(headers.count(wire::kRequestIdField) == 1 && headers.count(wire::kTraceparentField) == 1,
          "each field stands once");
  PROMISE(wire::trace_of(headers) == trace, "and says what was decided");
  PROMISE(wire::trace_from_text(wire::to_text(trace)) == trace, "a row's text reads back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t step = 1U + input.byte() % 32U;
  const std::size_t end = wire::find_head_end(input.rest());
  const auto head = wire::parse_request_head(input.rest().substr(0, end));
  if (!head) {
    check_body({.kind = wire::Framing::kChunked}, input.rest(), step);
    return 0;
  }
  for (const auto& [name, value] : head->headers.fields()) {
    PROMISE((name + value).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos,
            "no field can end its line");
    PROMISE(name.find_first_of(" \t:") == std::string::npos, "no blank before a colon");
  }
  PROMISE(head->headers.count("content-length") + head->headers.count("transfer-encoding") <= 1,
          "a body is framed once");
  PROMISE(head->minor_version == 0 || head->headers.count("host") == 1, "there is one Host");
  const std::string text = wire::serialize(*head);
  const auto back = wire::parse_request_head(text, {.max_bytes = text.size()});
  PROMISE(back.has_value(), "what was written is read");
  PROMISE(wire::serialize(*back) == text, "and is written the same again");
  PROMISE(back->method == head->method && back->target == head->target, "with the same line");
  PROMISE(back->headers.fields() == head->headers.fields(), "with the same fields");
  PROMISE(back->body.kind == head->body.kind && back->body.length == head->body.length,
          "with the same body");
  PROMISE(back->keep_alive == head->keep_alive, "and the same end");
  check_trace(head->headers);
  check_target(head->target);
  check_body(head->body, input.rest().substr(end), step);
  return 0;
}
