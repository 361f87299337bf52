// A plain request from its bytes to what the upstream gets, and an answer on its way back.

#include "egress/forward.h"
#include "tests/fuzz/fuzz_input.h"
#include "wire/http.h"

#include <algorithm>
#include <array>
#include <string>
#include <variant>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::array kHopByHop{"proxy-connection", "keep-alive",          "te",
                               "trailer",          "proxy-authorization", "max-forwards"};

void check_request(std::string_view text) {
  const auto head = wire::parse_request_head(text.substr(0, wire::find_head_end(text)));
  if (!head) {
    return;
  }
  auto plan = egress::plan_forward(*head);
  if (const auto* refusal = std::get_if<egress::Refusal>(&plan)) {
    PROMISE(refusal->status == 400 || refusal->status == 405, "a refusal is the client's fault");
    const std::string answer = egress::refusal_response(*refusal, false, true);
    PROMISE(wire::find_head_end(answer) != 0, "and an answer");
    return;
  }
  const auto& request = std::get<egress::ForwardRequest>(plan);
  const auto sent = wire::parse_request_head(request.head, {.max_bytes = request.head.size()});
  PROMISE(sent.has_value(), "what goes on is a request");
  PROMISE(wire::find_head_end(request.head) == request.head.size(), "of one head");
  PROMISE(sent->method == head->method, "with its method");
  PROMISE(sent->target.front() == '/' || sent->target == "*", "and a path");
  PROMISE(sent->target == "*" || head->target.ends_with(sent->target) ||
              head->target.ends_with(sent->target.substr(1)),
          "which is the client's");
  const auto named =
      EgressTarget::from_http_uri("http://" + *sent->headers.find("host") + sent->target);
  PROMISE(sent->target == "*" || (named && named->to_string() == request.target.to_string()),
          "Host is the target that was judged");
  for (const char* name : kHopByHop) {
    PROMISE(sent->headers.count(name) == 0, "what is of the connection stays there");
  }
  PROMISE(sent->body.kind == head->body.kind && sent->body.length == head->body.length,
          "the body ends where the client's does");
  PROMISE(!request.websocket || sent->body.kind == wire::Framing::kNone, "an upgrade has no body");
}

struct Relayed {
  bool failed = false;
  std::string out{};
};

Relayed relay(std::string_view text, const egress::ResponseContext& context, std::size_t step) {
  egress::ResponseRelay relay(context);
  Relayed out;
  while (!text.empty() && !relay.done() && !relay.upgraded()) {
    std::string_view piece = text.substr(0, step);
    const std::size_t offered = piece.size();
    if (!relay.feed(piece, out.out)) {
      out.failed = true;
      return out;
    }
    text.remove_prefix(offered - piece.size());
    PROMISE(piece.empty() || relay.done() || relay.upgraded(),
            "bytes are left behind the end only");
  }
  out.failed = !relay.done() && !relay.upgraded() && !relay.end();
  return out;
}

void check_answer(std::string_view text, std::uint8_t choice) {
  const egress::ResponseContext context{.method = (choice & 1U) != 0 ? "HEAD" : "GET",
                                        .client_minor_version = (choice >> 1U) & 1,
                                        .client_keep_alive = (choice & 4U) != 0,
                                        .websocket = (choice & 8U) != 0};
  const Relayed whole = relay(text, context, std::max<std::size_t>(text.size(), 1));
  const Relayed cut = relay(text, context, 1U + choice / 16U);
  PROMISE(whole.failed == cut.failed, "an answer is refused however it is cut");
  if (whole.failed || whole.out.empty()) {
    return;
  }
  // What the client gets: heads that read, the last of them final, and no word in our name.
  std::string_view left = whole.out;
  while (true) {
    const std::size_t end = wire::find_head_end(left);
    PROMISE(end != 0, "an answer has a head");
    const auto head =
        wire::parse_response_head(left.substr(0, end), context.method, {.max_bytes = end});
    PROMISE(head.has_value(), "which can be read");
    PROMISE(head->headers.count("x-sandboxkit-egress") == 0, "and does not speak for the proxy");
    PROMISE(head->headers.count("transfer-encoding") + head->headers.count("content-length") <= 1,
            "its body is framed once");
    left.remove_prefix(end);
    if (head->status >= 200 || head->status == 101) {
      PROMISE(head->status != 101 || context.websocket, "nothing is upgraded unasked");
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t side = input.byte();
  const std::uint8_t choice = input.byte();
  if (side % 2 == 0) {
    check_request(input.rest());
  } else {
    check_answer(input.rest(), choice);
  }
  return 0;
}
