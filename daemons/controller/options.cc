#include "daemons/controller/options.h"

#include "daemons/settings/settings.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace sandboxkit::daemons {

std::optional<ControllerOptions> read_controller_options(int argc, char** argv, int& exit_code) {
  const Program program{.name = "sandboxkit-controller",
                        .purpose = "The control plane: API, gateway, tunnels, store, scheduler."};
  ControllerOptions options;
  const config::Table table = table_of(options);
  const Settings settings = read_settings(program, table, argc, argv);
  if (const auto end = conclude(program, table, settings)) {
    exit_code = *end;
    return std::nullopt;
  }
  return options;
}

Status write_port_file(const std::string& path, std::uint16_t port) {
  const std::string part = path + ".part";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "we"),
                                                             &std::fclose);
  if (!file || std::fprintf(file.get(), "%u\n", unsigned{port}) < 0 ||
      std::fflush(file.get()) != 0 || std::rename(part.c_str(), path.c_str()) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "port file `" + path + "` cannot be written: " + std::strerror(errno)};
  }
  return {};
}

}  // namespace sandboxkit::daemons
