#pragma once

#include "config/table.h"

#include <cstdint>
#include <string>

namespace sandboxkit::daemons {

/// An option `HOST:PORT`. An empty address, as a default, stands for "not at all".
void add_listen(config::Table& table, const config::About& about, std::string& address,
                std::uint16_t& port);

}  // namespace sandboxkit::daemons
