#pragma once

#include "config/read.h"
#include "config/table.h"

#include <string>

namespace sandboxkit::config {

/// One line an option: `key = value  # source`, in the table's order. Secrets are `(set)` or
/// `(not set)`. Where more than one source gave a value, the line names those that lost.
std::string effective_lines(const Table& table, const Reading& reading);

/// A default as people read it; "" where there is none.
std::string default_of(const Option& option);

/// The table as the documentation shows it.
std::string markdown(const Table& table);

}  // namespace sandboxkit::config
