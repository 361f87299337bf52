#include "json/value.h"
#include "tests/fuzz/fuzz_input.h"

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

std::size_t depth_of(const json::Value& value) {
  std::size_t deepest = 0;
  if (const auto* items = value.as_array()) {
    for (const auto& item : *items) {
      deepest = std::max(deepest, depth_of(item));
    }
    return deepest + 1;
  }
  if (const auto* members = value.as_object()) {
    for (const auto& [name, member] : *members) {
      PROMISE(value.find(name) == &member, "a name stands in an object once");
      PROMISE(name.find('\0') == std::string::npos, "no name holds a NUL");
      deepest = std::max(deepest, depth_of(member));
    }
    return deepest + 1;
  }
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const json::Limits limits{
      .max_bytes = 4096, .max_depth = 1U + input.byte() % 16U, .max_values = 200};
  const auto value = json::parse(input.rest(), limits);
  if (!value) {
    return 0;
  }
  PROMISE(input.rest().size() <= limits.max_bytes, "the size has a limit");
  PROMISE(depth_of(*value) <= limits.max_depth, "the depth has a limit");
  const std::string text = json::dump(*value);
  const auto back = json::parse(text, {.max_bytes = text.size()});
  PROMISE(back.has_value(), "what was written is read");
  PROMISE(*back == *value, "and reads back as what it was");
  PROMISE(json::dump(*back) == text, "and is written the same again");
  return 0;
}
