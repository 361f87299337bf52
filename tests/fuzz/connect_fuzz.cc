#include "tests/fuzz/fuzz_input.h"
#include "wire/connect.h"

#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kMaxMessage = 64;

struct Decoded {
  bool refused = false;
  std::string bytes{};  ///< The messages, written again.
};

Decoded decode(std::string_view text, std::size_t step) {
  wire::ConnectDecoder decoder(kMaxMessage);
  Decoded out;
  while (!text.empty()) {
    decoder.feed(text.substr(0, step));
    text.remove_prefix(std::min(step, text.size()));
    while (true) {
      const auto message = decoder.next();
      if (!message) {
        out.refused = true;
        return out;
      }
      if (!*message) {
        break;
      }
      PROMISE((*message)->json.size() <= kMaxMessage, "a message has a limit");
      out.bytes += wire::connect_envelope((*message)->flags, (*message)->json);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t step = 1U + input.byte() % 16U;
  const std::string_view text = input.rest();
  const Decoded whole = decode(text, std::max<std::size_t>(text.size(), 1));
  const Decoded cut = decode(text, step);
  PROMISE(whole.refused == cut.refused, "a stream is refused however it is cut");
  PROMISE(whole.bytes == cut.bytes, "and reads the same however it is cut");
  PROMISE(text.substr(0, whole.bytes.size()) == whole.bytes, "messages are what came");
  return 0;
}
