#include "wire/unicode_names.h"

#include "base/text.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <idn2.h>

namespace sandboxkit::wire {
namespace {

constexpr std::string_view kDomains = "allowed_domains";

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// The `xn--` form as the library makes it; nullopt when the label cannot be written so.
std::optional<std::string> converted(const std::string& label, int flags) {
  char* raw = nullptr;
  const int status = idn2_to_ascii_8z(label.c_str(), &raw, flags);
  const std::unique_ptr<char, decltype(&idn2_free)> owned(raw, &idn2_free);
  if (status != IDN2_OK || raw == nullptr) {
    return std::nullopt;
  }
  return std::string(raw);
}

Result<std::string> ascii_label(std::string_view text) {
  const std::string label = ascii_lower(text);
  // Nothing is mapped: what IDNA2008 does not take letter by letter is an error.
  if (auto exact = converted(label, IDN2_NO_TR46)) {
    return *std::move(exact);
  }
  const auto meant = converted(label, IDN2_NONTRANSITIONAL);
  return Error{ErrorCode::kInvalidArgument,
               quoted(text) + " is no label of a domain name" +
                   (meant ? "; write " + quoted(*meant) + " if that is what is meant"
                          : "; write it in its `xn--` form")};
}

}  // namespace

Result<std::string> ascii_entry(std::string_view entry) {
  if (is_ascii(entry)) {
    return std::string(entry);
  }
  if (!is_utf8(entry) || entry.find('\0') != std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument, quoted(entry) + " is no text in UTF-8"};
  }
  const auto colon = std::min(entry.rfind(':'), entry.size());
  std::string out;
  for (const std::string_view label : split(entry.substr(0, colon), '.')) {
    out += out.empty() ? "" : ".";
    if (is_ascii(label)) {
      out += label;
      continue;
    }
    auto ascii = ascii_label(label);
    if (!ascii) {
      return ascii;
    }
    out += *ascii;
  }
  return out + std::string(entry.substr(colon));
}

Result<json::Value> with_ascii_domains(const json::Value& egress, const std::string& path) {
  const json::Object* members = egress.as_object();
  const json::Value* domains = egress.find(kDomains);
  const json::Array* entries = domains != nullptr ? domains->as_array() : nullptr;
  if (members == nullptr || entries == nullptr) {
    return egress;
  }
  json::Array out;
  for (const json::Value& entry : *entries) {
    const std::string* text = entry.as_string();
    if (text == nullptr) {
      out.push_back(entry);  // Refused, with its index, by whoever reads the list.
      continue;
    }
    auto ascii = ascii_entry(*text);
    if (!ascii) {
      Error error = std::move(ascii).error();
      error.field = path + (path.empty() ? "" : ".") + std::string(kDomains) + "[" +
                    std::to_string(out.size()) + "]";
      return error;
    }
    out.emplace_back(*std::move(ascii));
  }
  json::Object written = *members;
  std::ranges::find(written, kDomains, &json::Object::value_type::first)->second = std::move(out);
  return json::Value(std::move(written));
}

Result<json::Value> with_ascii_egress(const json::Value& body) {
  const json::Value* egress = body.find("egress");
  if (egress == nullptr) {
    return body;
  }
  auto ascii = with_ascii_domains(*egress, "egress");
  if (!ascii) {
    return ascii;
  }
  json::Object written = *body.as_object();
  std::ranges::find(written, "egress", &json::Object::value_type::first)->second =
      *std::move(ascii);
  return json::Value(std::move(written));
}

}  // namespace sandboxkit::wire
