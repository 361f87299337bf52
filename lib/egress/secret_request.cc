#include "egress/secret_request.h"

#include "base/percent.h"
#include "base/text.h"

#include <algorithm>
#include <optional>
#include <string>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kMisdirected = 421;
constexpr std::uint16_t kHttpsPort = 443;

/// Whether a parameter of a query has that name, however it is spelt. A broken escape is nobody's
/// name; what reads it otherwise than we do gets the sandbox's own text and no secret.
bool is_parameter(std::string_view parameter, std::string_view key) {
  const auto name = percent_decode(parameter.substr(0, parameter.find('=')), true);
  return name && *name == key;
}

std::string with_parameter(const std::string& origin, const PlacedSecret& secret) {
  const std::size_t question = origin.find('?');
  std::string out = origin.substr(0, question) + "?";
  if (question != std::string::npos) {
    for (const std::string_view part : split(std::string_view(origin).substr(question + 1), '&')) {
      if (!is_parameter(part, secret.key)) {
        out += std::string(part) + "&";
      }
    }
  }
  return out + percent_encoded(secret.key) + "=" + std::string(secret.value.view());
}

/// A placeholder that the sandbox wrote into some other field is of use to nobody.
wire::RequestHead without_placeholders(const wire::RequestHead& head,
                                       std::span<const PlacedSecret> secrets) {
  wire::RequestHead out = head;
  out.headers = {};
  for (const auto& [name, value] : head.headers.fields()) {
    const bool holds = std::ranges::any_of(secrets, [&value = value](const PlacedSecret& placed) {
      return value.find(placed.placeholder) != std::string::npos;
    });
    if (!holds) {
      out.headers.add(name, value);
    }
  }
  return out;
}

ForwardRequest add_secrets(const wire::RequestHead& head, Rewrite rewrite,
                           std::span<const PlacedSecret> secrets) {
  for (const PlacedSecret& placed : secrets) {
    if (placed.place == SecretPlace::kQuery) {
      rewrite.origin = with_parameter(rewrite.origin, placed);
    } else {
      rewrite.own_fields.emplace_back(placed.key, placed.value.view());
    }
  }
  return rewrite_request(without_placeholders(head, secrets), std::move(rewrite));
}

Refusal bad_target() {
  return {kBadRequest, "bad_target",
          "Inside of this connection a request's target is a path that begins with `/`."};
}

std::optional<EgressTarget> target_of_host(const std::string& host, std::uint16_t port) {
  auto target = EgressTarget::from_authority(host);
  if (!target) {
    target = EgressTarget::from_authority(host + ":" + std::to_string(port));
  }
  return target ? std::optional(*std::move(target)) : std::nullopt;
}

std::optional<Refusal> refuse_host(const wire::RequestHead& head, const EgressTarget& target) {
  const std::string* host = head.headers.find("host");
  const auto named = host != nullptr && head.headers.count("host") == 1
                         ? target_of_host(*host, kHttpsPort)
                         : std::nullopt;
  if (named && named->host() == target.host() && named->port() == target.port()) {
    return std::nullopt;
  }
  return Refusal{
      kMisdirected, "host_mismatch",
      "This connection is to " + quoted(target.to_string()) +
          "; the request's Host must name the same. This is the sandbox's egress policy."};
}

}  // namespace

void SecretMask::add(const LentSecret& lent) {
  const auto take = [&](std::string_view spelling) {
    const bool known = std::ranges::any_of(
        spellings_, [&](const auto& other) { return other.first.view() == spelling; });
    if (spelling.size() >= kMinBytes && !known) {
      spellings_.emplace_back(SecretText(std::string(spelling)), lent.placeholder());
    }
  };
  const std::string_view value = lent.value;
  take(value);
  // `Bearer TOKEN` and `user:password`: the second half alone is the secret as well.
  const std::size_t half = value.find_last_of(lent.place == SecretPlace::kBasic ? ":" : " ");
  if (half != std::string_view::npos) {
    take(value.substr(half + 1));
  }
  take(SecretText(percent_encoded(value)).view());
  if (lent.place == SecretPlace::kBasic) {
    take(SecretText(base64_encode(value)).view());
  }
  // A spelling may be a part of another: the longest is looked for first.
  std::ranges::stable_sort(spellings_, [](const auto& a, const auto& b) {
    return a.first.view().size() > b.first.view().size();
  });
}

std::string SecretMask::hide_in(std::string text) const {
  for (const auto& [spelling, placeholder] : spellings_) {
    for (std::size_t at = 0; (at = text.find(spelling.view(), at)) != std::string::npos;
         at += placeholder.size()) {
      text.replace(at, spelling.view().size(), placeholder);
    }
  }
  return text;
}

wire::ResponseHead SecretMask::hide_in(wire::ResponseHead head) const {
  wire::ResponseHead out{.status = head.status, .reason = hide_in(std::move(head.reason))};
  for (const auto& [name, value] : head.headers.fields()) {
    // A length is our own reading of the framing, and no text.
    const bool is_length = equal_ignoring_case(name, "content-length");
    out.headers.add(hide_in(name), is_length ? value : hide_in(value));
  }
  return out;
}

PlacedSecret place(const LentSecret& secret) {
  PlacedSecret placed{.name = secret.name,
                      .placeholder = secret.placeholder(),
                      .place = secret.place,
                      .key = secret.key,
                      .value = {},
                      .expires_at = secret.expires_at};
  switch (secret.place) {
    case SecretPlace::kHeader:
      placed.value = SecretText(secret.value);
      break;
    case SecretPlace::kBasic:
      placed.key = "Authorization";
      placed.value = SecretText("Basic " + base64_encode(secret.value));
      break;
    case SecretPlace::kQuery:
      placed.value = SecretText(percent_encoded(secret.value));
      break;
  }
  return placed;
}

std::variant<ForwardRequest, Refusal> plan_lent(const wire::RequestHead& head,
                                                const EgressTarget& target,
                                                std::span<const PlacedSecret> secrets) {
  if (auto refusal = refuse_method(head.method)) {
    return *std::move(refusal);
  }
  // A `#` ends the query for some readers: what is added behind it would be lost on them.
  if (!head.target.starts_with('/') || head.target.find('#') != std::string::npos) {
    return bad_target();
  }
  if (auto refusal = refuse_host(head, target)) {
    return *std::move(refusal);
  }
  std::string host = target.to_string();
  if (target.port() == kHttpsPort) {
    host = target.host();
  }
  return add_secrets(
      head, {.target = target, .origin = head.target, .own_fields = {{"Host", std::move(host)}}},
      secrets);
}

std::variant<ForwardRequest, Refusal> plan_lent_plain(const wire::RequestHead& head,
                                                      std::span<const PlacedSecret> secrets) {
  auto rewrite = read_plain(head);
  if (auto* refusal = std::get_if<Refusal>(&rewrite)) {
    return std::move(*refusal);
  }
  if (head.target.find('#') != std::string::npos) {
    return bad_target();
  }
  return add_secrets(head, std::get<Rewrite>(std::move(rewrite)), secrets);
}

}  // namespace sandboxkit::egress
