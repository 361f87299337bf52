#include "egress/client_hello.h"
#include "tests/fuzz/fuzz_input.h"

#include <algorithm>
#include <string>
#include <string_view>

using namespace sandboxkit::egress;  // NOLINT(google-build-using-namespace)
using State = ClientHelloReader::State;

namespace {

struct Read {
  State state = State::kMore;
  std::string name{};
  std::size_t taken = 0;
  bool operator==(const Read&) const = default;
};

Read read(std::string_view bytes, std::size_t step, ClientHelloReader::Flight flight) {
  ClientHelloReader reader(flight);
  Read out;
  while (!bytes.empty() && out.state == State::kMore) {
    std::string_view piece = bytes.substr(0, step);
    const std::size_t offered = piece.size();
    out.state = reader.feed(piece);
    const std::size_t taken = offered - piece.size();
    PROMISE(out.state != State::kMore || piece.empty(), "bytes are left only behind the end");
    out.taken += taken;
    bytes.remove_prefix(taken);
  }
  out.name = reader.server_name();
  if (out.state == State::kNotTls) {
    out.taken = 0;  // Where doubt begins depends on the cut.
  }
  return out;
}

/// What the record headers alone say: the hello's bytes without them.
std::string without_records(std::string_view bytes) {
  std::string out;
  while (bytes.size() >= 5) {
    const std::size_t length =
        static_cast<std::uint8_t>(bytes[3]) * 256U + static_cast<std::uint8_t>(bytes[4]);
    out += bytes[0] == 22 ? bytes.substr(5, length) : std::string_view();
    bytes.remove_prefix(std::min(bytes.size(), 5 + length));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sandboxkit::fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  const auto flight =
      choice % 2U == 0 ? ClientHelloReader::Flight::kFirst : ClientHelloReader::Flight::kSecond;
  const std::string_view bytes = input.rest();
  const Read whole = read(bytes, std::max<std::size_t>(bytes.size(), 1), flight);
  PROMISE(whole == read(bytes, 1U + choice / 2U % 16U, flight), "cuts change nothing");
  PROMISE(whole.taken <= ClientHelloReader::kMaxBytes, "a hello is bounded");
  if (whole.state == State::kHello) {
    const std::string message = without_records(bytes.substr(0, whole.taken));
    PROMISE(whole.name.empty() || message.find(whole.name) != std::string::npos,
            "a name stands in the hello");
    PROMISE(message.size() >= 4 && message[0] == 1, "which is a ClientHello");
    const std::size_t length = static_cast<std::uint8_t>(message[1]) * 65'536U +
                               static_cast<std::uint8_t>(message[2]) * 256U +
                               static_cast<std::uint8_t>(message[3]);
    PROMISE(message.size() == 4 + length, "and whole");
    PROMISE(read(bytes.substr(0, whole.taken - 1), 64, flight).state == State::kMore,
            "and ends with its last byte");
  }
  // A server's side: once it is told, more bytes do not change the answer.
  const ServerFlight early = read_server_flight(bytes.substr(0, bytes.size() / 2));
  const ServerFlight late = read_server_flight(bytes);
  PROMISE(early == ServerFlight::kMore || bytes.size() / 2 > 1024 || early == late,
          "a server's word stands");
  return 0;
}
