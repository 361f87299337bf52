#include "cli/create.h"

#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/text.h"

#include <utility>

namespace sandboxkit::cli {
namespace {

json::Value as_array(const std::vector<std::string>& texts) {
  return json::Array(texts.begin(), texts.end());
}

json::Value as_object(const std::map<std::string, std::string>& pairs) {
  json::Object object;
  for (const auto& [key, value] : pairs) {
    object.emplace_back(key, value);
  }
  return object;
}

Result<json::Value> egress_value(const CreateOptions& options) {
  const bool allows = !options.allow.empty() || !options.allow_networks.empty();
  if (options.open && (allows || options.deny_all || options.strict_tls)) {
    return usage_error(
        "--open has no wall: it cannot stand beside --allow, --allow-network, --strict-tls or "
        "--deny-all");
  }
  if (options.deny_all && allows) {
    return usage_error(
        "--deny-all allows nothing: it cannot stand beside --allow or --allow-network");
  }
  if (options.open) {
    return json::Value();
  }
  json::Object egress{{"allowed_domains", as_array(options.allow)}};
  if (!options.allow_networks.empty()) {
    egress.emplace_back("allowed_networks", as_array(options.allow_networks));
  }
  if (options.strict_tls) {
    egress.emplace_back("strict_tls", true);
  }
  return json::Value(std::move(egress));
}

Status add_sizes(json::Object& body, const CreateOptions& options) {
  if (options.cpu_cores) {
    body.emplace_back("cpu_cores", *options.cpu_cores);
  }
  if (!options.memory.empty()) {
    const auto memory = parse_memory_mb(options.memory);
    if (!memory) {
      return Error{memory.error().code, "--memory: " + memory.error().message};
    }
    body.emplace_back("memory_mb", *memory);
  }
  if (!options.timeout.empty()) {
    const auto timeout = parse_duration(options.timeout);
    if (!timeout) {
      return Error{timeout.error().code, "--timeout: " + timeout.error().message};
    }
    body.emplace_back("timeout_seconds", std::int64_t{timeout->count()});
  }
  return {};
}

void add_text(json::Object& body, const char* name, const std::string& text) {
  if (!text.empty()) {
    body.emplace_back(name, text);
  }
}

}  // namespace

Result<std::map<std::string, std::string>> parse_pairs(const std::vector<std::string>& pairs,
                                                       const std::string& option,
                                                       const VariableLookup& lookup) {
  std::map<std::string, std::string> out;
  for (const std::string& pair : pairs) {
    const auto equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) {
      value = pair.substr(equals + 1);
    } else if (lookup) {
      value = lookup(key);
      if (!value) {
        return usage_error(option + " " + sandboxkit::quoted(key) +
                           ": there is no such variable here; write NAME=VALUE");
      }
    }
    if (key.empty() || !value) {
      return usage_error(option + " " + sandboxkit::quoted(pair) + " must be written NAME=VALUE");
    }
    if (!out.emplace(key, *value).second) {
      return usage_error(option + " names " + sandboxkit::quoted(key) + " twice");
    }
  }
  return out;
}

Result<json::Value> create_body(const CreateOptions& options, const VariableLookup& lookup) {
  json::Object body{{"image", options.image}};
  auto egress = egress_value(options);
  if (!egress) {
    return egress.error();
  }
  body.emplace_back("egress", std::move(*egress));
  add_text(body, "name", options.name);
  if (auto status = add_sizes(body, options); !status) {
    return status.error();
  }
  add_text(body, "profile", options.profile);
  add_text(body, "runtime", options.runtime);
  add_text(body, "persistence", options.persistence);
  struct Pairs {
    const char* member;
    const char* option;
    const std::vector<std::string>& texts;
  };
  for (const Pairs& pairs :
       {Pairs{"env", "--env", options.env}, Pairs{"metadata", "--metadata", options.metadata},
        Pairs{"labels", "--label", options.labels}}) {
    const bool is_env = std::string_view(pairs.member) == "env";
    const auto parsed = parse_pairs(pairs.texts, pairs.option, is_env ? lookup : VariableLookup());
    if (!parsed) {
      return parsed.error();
    }
    if (!parsed->empty()) {
      body.emplace_back(pairs.member, as_object(*parsed));
    }
  }
  if (!options.tolerations.empty()) {
    body.emplace_back("tolerations",
                      json::Array(options.tolerations.begin(), options.tolerations.end()));
  }
  return json::Value(std::move(body));
}

std::string egress_in_words(const json::Value* egress) {
  if (egress == nullptr || egress->is_null()) {
    return "open";
  }
  std::vector<std::string> entries;
  for (const char* member : {"allowed_domains", "allowed_networks"}) {
    const json::Value* list = egress->find(member);
    const json::Array* items = list != nullptr ? list->as_array() : nullptr;
    for (const json::Value& item : items != nullptr ? *items : json::Array()) {
      entries.push_back(item.as_string() != nullptr ? *item.as_string() : std::string("?"));
    }
  }
  if (entries.empty()) {
    return "nothing";
  }
  return entries.size() == 1 ? entries[0] : entries[0] + " +" + std::to_string(entries.size() - 1);
}

}  // namespace sandboxkit::cli
