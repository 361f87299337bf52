#pragma once

#include "sandboxkit/result.h"

#include "json/value.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::guest {

/// Reads a protobuf message from its JSON form: absent and null members are zero values, unknown
/// ones are ignored, 64-bit numbers come as numbers or text, bytes as base64 with either alphabet.
/// The first member of a wrong type is kept as the problem. Source: design of the E2B surface, 4.2.
class RpcMessage {
 public:
  explicit RpcMessage(const json::Value& value);

  std::string text(std::string_view name);
  std::optional<std::string> optional_text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name);
  std::optional<std::string> bytes(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  std::map<std::string, std::string> text_map(std::string_view name);
  /// The member message; an empty one when it is absent.
  RpcMessage message(std::string_view name);
  bool has(std::string_view name) const;

  void refuse(std::string_view name, std::string_view what);
  /// The problem of this message, or of one that was taken from it before.
  Status status() const;
  /// Takes over the problem of a member message.
  void join(const RpcMessage& member);

 private:
  const json::Value* find(std::string_view name) const;
  const json::Value* value_;
  std::optional<Error> problem_;
};

}  // namespace sandboxkit::guest
