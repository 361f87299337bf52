#include "daemons/settings/listen.h"

#include "config/values.h"

#include <string_view>
#include <vector>

namespace sandboxkit::daemons {
namespace {

constexpr std::int64_t kMaxPort = 65'535;

/// `HOST:PORT` or `[HOST]:PORT`; empty on success, else what is wrong.
std::string read_listen(std::string_view text, std::string& address, std::uint16_t& number) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return "must be HOST:PORT";
  }
  const auto port = config::parse_integer(text.substr(colon + 1));
  if (!port || *port < 0 || *port > kMaxPort) {
    return "the port must be 0 to 65535";
  }
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  address = host;
  number = static_cast<std::uint16_t>(*port);
  return {};
}

}  // namespace

void add_listen(config::Table& table, const config::About& about, std::string& address,
                std::uint16_t& port) {
  table.add({.about = about,
             .range = "HOST:PORT",
             .problem_of =
                 [](std::string_view text) {
                   std::string host;
                   std::uint16_t number = 0;
                   return read_listen(text, host, number);
                 },
             .store = [&address, &port](
                          const auto& values) { (void)read_listen(values.at(0), address, port); },
             .stored = [&address, &port]() -> std::vector<std::string> {
               if (address.empty()) {
                 return {};
               }
               const bool bare = address.find(':') == std::string::npos;
               return {(bare ? address : "[" + address + "]") + ":" + std::to_string(port)};
             }});
}

}  // namespace sandboxkit::daemons
