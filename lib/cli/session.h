#pragma once

#include "sandboxkit/clock.h"

#include "cli/api.h"
#include "cli/commands.h"
#include "json/value.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::cli {

/// The controller that flags, environment or settings name.
Result<std::unique_ptr<Api>> open_api(const Common& common);

/// One object: as JSON, or its rows for people.
void print_json(const json::Value& value);

/// The member as text, whatever its kind; `null` and absent are "".
std::string cell(const json::Value& object, std::string_view member);

/// All pages of a list: `{"<member>": [...], "next": id or null}`.
Result<json::Array> fetch_all(Api& api, const std::string& target, const std::string& member);

/// A list of the controller as one command: JSON as it came, or rows.
struct Listing {
  std::string target;
  std::string member;
  std::vector<std::string> titles;
  std::function<std::vector<std::string>(const json::Value&, WallTime)> row;
  std::string when_empty;
};

int print_listing(const Common& common, const Listing& listing);

}  // namespace sandboxkit::cli
