#include "cli/session.h"

#include "sandboxkit/client.h"
#include "sandboxkit/clock.h"

#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <utility>

namespace sandboxkit::cli {
namespace {

/// More pages than any fleet needs; a controller that never ends its list is not believed.
constexpr int kMaxPages = 10'000;

}  // namespace

Result<std::unique_ptr<Api>> open_api(const Common& common) {
  auto config = connection_settings(common.connection, process_environment());
  if (!config) {
    return config.error();
  }
  auto client = Client::create(std::move(*config));
  if (!client) {
    return client.error();
  }
  return std::make_unique<Api>(std::move(*client));
}

void print_json(const json::Value& value) { print_line(json::dump(value)); }

std::string cell(const json::Value& object, std::string_view member) {
  const json::Value* value = object.find(member);
  if (value == nullptr || value->is_null()) {
    return {};
  }
  if (const std::string* text = value->as_string()) {
    return *text;
  }
  if (const double* number = value->as_double()) {
    return plain_number(*number);
  }
  return json::dump(*value);
}

Result<json::Array> fetch_all(Api& api, const std::string& target, const std::string& member) {
  json::Array all;
  std::string page = target;
  for (int i = 0; i < kMaxPages; ++i) {
    auto answer = api.get(page);
    if (!answer) {
      return answer.error();
    }
    const json::Value* items = answer->find(member);
    if (items == nullptr || items->as_array() == nullptr) {
      return Error{ErrorCode::kInternal, "the controller's answer has no list `" + member + "`"};
    }
    all.insert(all.end(), items->as_array()->begin(), items->as_array()->end());
    const std::string next = answer->text("next");
    if (next.empty()) {
      return all;
    }
    const char* separator = target.find('?') == std::string::npos ? "?" : "&";
    page = target + separator + "after=" + percent_encode(next);
  }
  return Error{ErrorCode::kInternal, "the controller's list does not end"};
}

int print_listing(const Common& common, const Listing& listing) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  auto items = fetch_all(**api, listing.target, listing.member);
  if (!items) {
    return fail(items.error());
  }
  if (common.json) {
    print_json(json::Object{{listing.member, std::move(*items)}});
    return kExitOk;
  }
  if (items->empty()) {
    write_all(kStandardError, listing.when_empty + "\n");
    return kExitOk;
  }
  Table table(listing.titles);
  const WallTime now = system_clock().now();
  for (const json::Value& item : *items) {
    table.add(listing.row(item, now));
  }
  write_all(kStandardOutput, table.text(table_width()));
  return kExitOk;
}

}  // namespace sandboxkit::cli
