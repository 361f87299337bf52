// The log of a permission gate as somebody else left it: lines, heads, whole chains.

#include "audit/escape.h"
#include "audit/redact.h"
#include "audit/walk.h"
#include "base/text.h"
#include "json/value.h"
#include "tests/fuzz/fuzz_input.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

audit::Key key() {
  audit::Key::Bytes bytes{};
  bytes[0] = 1;
  return audit::Key(bytes);
}

void check_bytes(std::string_view bytes) {
  if (const auto line = audit::parse_line(bytes)) {
    const std::string again = audit::close_line(line->body, line->hash);
    PROMISE(again == std::string(bytes) + (bytes.ends_with('\n') ? "" : "\n"),
            "a line that was read is what was written");
  }
  const audit::Key own = key();
  if (const auto head = audit::parse_head(bytes, nullptr)) {
    PROMISE(audit::parse_head(audit::render_head(*head, &own), &own).value() == *head,
            "a head comes back");
  }
  PROMISE(!audit::parse_head(bytes, &own) || bytes.find("mac") != bytes.npos,
          "nothing unsigned counts as signed");
  std::string out;
  audit::append_escaped(out, bytes, 256);
  PROMISE(out.size() <= 256, "an escaped text has its limit");
  PROMISE(!has_control_characters(out) && is_utf8(out), "and is safe");
  PROMISE(json::parse("\"" + out + "\"").has_value(), "and is the inside of a JSON string");
  const std::string shown = audit::redact_text(bytes, own);
  PROMISE(!bytes.empty() || shown.empty(), "nothing comes from nothing");
}

/// A whole chain of a few lines.
std::vector<std::string> chain(std::size_t records, audit::Head& head) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i <= records; ++i) {
    const std::string fields = i == 0 ? audit::render_opening({"c-1", 0, "", 0})
                                      : "\"kind\":\"hint\",\"n\":" + std::to_string(i);
    const std::string body =
        audit::render_body({i + 1, "2026-11-30T12:00:00.000Z", i, 1, 0, head.hash}, fields);
    head = {"c-1", 1, i + 1, audit::chain_hash(head.hash, body)};
    lines.push_back(audit::close_line(body, head.hash));
  }
  return lines;
}

audit::ChainCheck walk(std::string_view text, const audit::Head& head, std::size_t piece) {
  audit::ChainWalk walk("c-1", head);
  walk.begin_segment(1);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    walk.take(text.substr(at, piece));
  }
  return walk.finish();
}

/// Any change of a signed chain's bytes shows, and it shows the same however the bytes come.
void check_changed_chain(fuzz::Input& input) {
  audit::Head head;
  std::string text;
  for (const std::string& line : chain(3 + input.byte() % 6, head)) {
    text += line;
  }
  const std::string whole = text;
  const std::size_t at = (input.byte() * 256U + input.byte()) % text.size();
  const std::size_t gone = input.byte() % (text.size() - at);
  const std::size_t piece = 1 + input.byte();
  text = text.substr(0, at) + std::string(input.rest()) + text.substr(at + gone);
  const audit::ChainCheck check = walk(text, head, piece);
  const audit::ChainCheck again = walk(text, head, text.size() + 1);
  PROMISE(check.bad_seq == again.bad_seq && check.problem == again.problem,
          "pieces make no difference");
  PROMISE(check.records <= static_cast<std::uint64_t>(std::ranges::count(text, '\n')),
          "no record comes from nothing");
  // What stands behind the head is nobody's word; before it, nothing may differ.
  PROMISE(!check.intact() || text.substr(0, whole.size()) == whole, "a change is found");
  PROMISE(text != whole || check.intact(), "and what is whole is whole");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  if (input.byte() % 2 == 0) {
    check_bytes(input.rest());
  } else {
    check_changed_chain(input);
  }
  return 0;
}
