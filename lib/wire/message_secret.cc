#include "base/text.h"
#include "json/reader.h"
#include "wire/message_fields.h"
#include "wire/messages.h"

#include <utility>

/// Lent secrets as JSON. The only writer of a value is `lent_secrets_to_json`.
namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxDomainBytes = 260;  // A name, a colon and a port.

/// Exactly one of the three places.
void read_place(json::Reader& reader, LentSecret& lent) {
  const auto header = reader.optional_string("header", LentSecret::kMaxKeyBytes);
  const auto query = reader.optional_string("query", LentSecret::kMaxKeyBytes);
  const auto basic = reader.optional_bool("basic");
  if (basic && !*basic) {
    reader.refuse("basic", "must be true, or absent");
    return;
  }
  if (int{header.has_value()} + int{query.has_value()} + int{basic.has_value()} != 1) {
    reader.refuse("header", "give one of `header`, `basic` and `query`");
    return;
  }
  lent.place = header ? SecretPlace::kHeader : query ? SecretPlace::kQuery : SecretPlace::kBasic;
  lent.key = header ? *header : query.value_or("");
}

void read_value(json::Reader& reader, LentSecret& lent) {
  const json::Value* from = reader.member("value_from");
  if (from == nullptr) {
    reader.refuse("value_from", "is required: `{\"value\": \"...\"}`");
    return;
  }
  json::Reader inner(*from, reader.path_of("value_from"));
  lent.value = inner.required_string("value", LentSecret::kMaxValueBytes);
  if (auto status = inner.finish(); !status) {
    reader.refuse(status.error());
  }
}

void read_end(json::Reader& reader, LentSecret& lent) {
  if (reader.member("expires_at") != nullptr) {
    lent.expires_at = detail::read_time(reader, "expires_at");
  }
}

Result<LentSecret> checked(json::Reader& reader, LentSecret lent) {
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  if (auto status = validate(lent); !status) {
    Error error = status.error();
    error.field = reader.path_of(error.field);
    return error;
  }
  return lent;
}

Result<LentSecret> read_secret(const json::Value& value, const std::string& path) {
  json::Reader reader(value, path);
  LentSecret lent{.name = reader.required_string("name", LentSecret::kMaxNameBytes),
                  .domain = reader.required_string("domain", kMaxDomainBytes)};
  read_place(reader, lent);
  read_value(reader, lent);
  read_end(reader, lent);
  return checked(reader, std::move(lent));
}

}  // namespace

json::Object secret_view(const LentSecret& lent) {
  json::Object out{{"name", lent.name}, {"domain", lent.domain}};
  out.emplace_back(name_of(lent.place),
                   lent.place == SecretPlace::kBasic ? json::Value(true) : json::Value(lent.key));
  if (lent.expires_at != WallTime{}) {
    out.emplace_back("expires_at", to_rfc3339(lent.expires_at));
  }
  return out;
}

json::Value lent_secrets_to_json(const std::vector<LentSecret>& secrets) {
  return detail::write_list(secrets, [](const LentSecret& lent) {
    json::Object out = secret_view(lent);
    out.emplace_back("value_from", json::Object{{"value", lent.value}});
    return json::Value(std::move(out));
  });
}

Result<std::vector<LentSecret>> lent_secrets_from_json(const json::Value& value,
                                                       const std::string& path) {
  const json::Array* items = value.as_array();
  if (items == nullptr || items->size() > SandboxSpec::kMaxSecrets) {
    return Error{ErrorCode::kInvalidArgument, "must be an array of at most 16 objects", {}, path};
  }
  std::vector<LentSecret> secrets;
  secrets.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    auto secret = read_secret((*items)[i], path + "[" + std::to_string(i) + "]");
    if (!secret) {
      return secret.error();
    }
    secrets.push_back(std::move(*secret));
  }
  return secrets;
}

Result<LentSecret> rotated_from_json(const json::Value& value, LentSecret lent) {
  json::Reader reader(value, "");
  lent.expires_at = WallTime{};
  read_value(reader, lent);
  read_end(reader, lent);
  return checked(reader, std::move(lent));
}

}  // namespace sandboxkit::wire
