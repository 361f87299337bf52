#pragma once

#include "sandboxkit/result.h"

#include "json/value.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::cli {

/// What `create` and `run` may say about the sandbox.
struct CreateOptions {
  std::string image = "sandboxkit/base";
  std::string name{};
  std::vector<std::string> allow{};
  std::vector<std::string> allow_networks{};
  bool strict_tls = false;
  bool deny_all = false;
  bool open = false;
  std::optional<double> cpu_cores{};
  std::string memory{};
  std::string timeout{};
  std::string profile{};
  std::string runtime{};
  std::string persistence{};
  std::vector<std::string> env{};
  std::vector<std::string> labels{};
  std::vector<std::string> tolerations{};
  std::vector<std::string> metadata{};
};

/// The value of a variable of our own environment, for `--env NAME`.
using VariableLookup = std::function<std::optional<std::string>(const std::string&)>;

/// `NAME=VALUE` each, or `NAME` alone where a look-up is given.
/// Errors: kInvalidArgument naming the option.
Result<std::map<std::string, std::string>> parse_pairs(const std::vector<std::string>& pairs,
                                                       const std::string& option,
                                                       const VariableLookup& lookup = {});

/// The body of `POST /v1/sandboxes`. Without a word about egress the sandbox may reach nothing.
/// Errors: kInvalidArgument for options that contradict each other or do not parse.
Result<json::Value> create_body(const CreateOptions& options, const VariableLookup& lookup);

/// `open`, `nothing`, `packages.test`, `packages.test +2`: a sandbox's egress in a few words.
std::string egress_in_words(const json::Value* egress);

}  // namespace sandboxkit::cli
