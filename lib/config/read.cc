#include "config/read.h"

#include "base/text.h"
#include "config/nearest.h"
#include "config/yaml.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::config {
namespace {

/// One value at its place.
struct Placed {
  std::string value;
  std::string where;
};

/// Kubernetes gives each container variables of its services, and a service may have our name:
/// those are nobody's slip.
bool is_of_a_service(std::string_view rest) {
  return rest.starts_with("SERVICE_") || rest == "PORT" ||
         (rest.starts_with("PORT_") && rest.size() > 5 && rest[5] >= '0' && rest[5] <= '9');
}

std::string same_twice(const std::string& one, const std::string& other) {
  return "`" + one + "` and `" + other + "` say the same: give one of them";
}

/// What a variable holds: of a list or map its items, which commas part.
std::vector<Placed> items_of(const Option& option, const std::string& value,
                             const std::string& where) {
  if (!option.repeatable()) {
    return {{value, where}};
  }
  std::vector<Placed> items;
  for (const std::string_view item : split(value, ',')) {
    items.push_back({std::string(trim(item)), where});
  }
  return items;
}

class Reader {
 public:
  Reader(const Table& table, Reading& reading) : table_(table), reading_(reading) {}

  /// False when what it may hold is not known.
  bool read_file(const FileText& file);
  void read_flags(const std::vector<Given>& flags);
  void read_environment(const std::vector<Given>& environment);
  void settle_exclusives();
  void look_for_missing();
  void apply_rules();

 private:
  void complain(std::string where, std::string message) {
    if (reading_.problems.size() < kMaxProblems) {
      reading_.problems.push_back({std::move(where), std::move(message)});
    }
  }
  void complain(const Option& option, std::string where, const std::string& message) {
    bad_.insert(option.about.key);
    complain(std::move(where), "`" + option.about.key + "` " + message);
  }

  void read_section(const FileText& file, const YamlNode& map, const std::string& section);
  void read_member(const FileText& file, const YamlNode& member, const std::string& section);
  void unknown_key(const std::string& where, const YamlNode& member, const std::string& section);
  void unknown_variable(const std::string& name);
  void read_scalar(const Option& option, const YamlNode& node, const std::string& where);
  void read_items(const Option& option, const FileText& file, const YamlNode& member);
  bool take_scalar(const Option& option, const YamlNode& node, const std::string& where);
  void assign(const Option& option, Strength strength, const std::vector<Placed>& values);
  bool repeats_a_name(const Option& option, const std::vector<Placed>& values);

  const Table& table_;
  Reading& reading_;
  std::set<std::string> bad_;
};

std::string place(const FileText& file, int line) { return file.name + ":" + std::to_string(line); }

void Reader::assign(const Option& option, Strength strength, const std::vector<Placed>& values) {
  bool good = !repeats_a_name(option, values);
  std::vector<std::string> plain;
  for (const auto& [value, where] : values) {
    if (const std::string problem = option.problem_of(value); !problem.empty()) {
      complain(option, where, (option.about.secret ? "" : quoted(value) + " ") + problem);
      good = false;
    }
    plain.push_back(value);
  }
  if (!good) {
    return;
  }
  option.store(plain);
  const std::string where = values.empty() ? "" : values.front().where;
  reading_.given[option.about.key].push_back({strength, where});
}

bool Reader::repeats_a_name(const Option& option, const std::vector<Placed>& values) {
  std::map<std::string, std::string> seen;
  bool repeats = false;
  if (option.kind != Kind::kPairs) {
    return false;
  }
  for (const auto& [value, where] : values) {
    const std::string name = value.substr(0, value.find('='));
    const auto [first, fresh] = seen.emplace(name, where);
    if (!fresh) {
      complain(option, where, "has " + quoted(name) + " twice: first at " + first->second);
      repeats = true;
    }
  }
  return repeats;
}

bool Reader::read_file(const FileText& file) {
  const Document document = parse_yaml(file.text, file.name);
  for (const Problem& problem : document.problems) {
    complain(problem.where, problem.message);
  }
  read_section(file, document.root, "");
  return document.whole;
}

void Reader::read_section(const FileText& file, const YamlNode& map, const std::string& section) {
  for (const YamlNode& member : map.items) {
    read_member(file, member, section);
  }
}

void Reader::read_member(const FileText& file, const YamlNode& member, const std::string& section) {
  const std::string where = place(file, member.key_line);
  const std::string key = section + member.key;
  const bool dotted = member.key.find('.') != std::string::npos;
  if (!dotted && table_.is_section(key)) {
    if (member.kind == YamlNode::Kind::kMap || member.kind == YamlNode::Kind::kEmpty) {
      return read_section(file, member, key + ".");
    }
    return complain(where, quoted(key) + " is a section: a map of options");
  }
  const Option* option = dotted ? nullptr : table_.by_key(key);
  if (option == nullptr || !option->about.in_file) {
    return unknown_key(where, member, section);
  }
  if (option->about.secret && file.open_to_others) {
    complain(*option, where,
             "is a secret, and others than the file's owner can read this file: run `chmod 600 " +
                 file.name + "`, or give " + option->about.variable);
  }
  if (option->repeatable()) {
    read_items(*option, file, member);
  } else {
    read_scalar(*option, member, where);
  }
}

void Reader::unknown_key(const std::string& where, const YamlNode& member,
                         const std::string& section) {
  std::vector<std::string> known;
  for (const Option& option : table_.options()) {
    const std::string& key = option.about.key;
    if (!option.about.in_file) {
      continue;
    }
    // The option's name in another section is as good as the right name with a slip.
    if (key.substr(key.rfind('.') + 1) == member.key || key == member.key) {
      known.assign({key});
      return complain(where, "unknown key " + quoted(section + member.key) + "; did you mean `" +
                                 key.substr(key.rfind('.') + 1) + "`" +
                                 (key.find('.') == std::string::npos
                                      ? " at the top?"
                                      : " in `" + key.substr(0, key.rfind('.')) + ":`?"));
    }
    known.push_back(key);
    if (const auto dot = key.find('.'); dot != std::string::npos) {
      known.push_back(key.substr(0, dot));
    }
  }
  complain(where, "unknown key " + quoted(section + member.key) +
                      did_you_mean(section + member.key, known));
}

bool Reader::take_scalar(const Option& option, const YamlNode& node, const std::string& where) {
  const bool is_text = option.kind == Kind::kText || option.repeatable();
  if (node.kind == YamlNode::Kind::kEmpty) {
    complain(option, where, "has no value");
  } else if (node.kind != YamlNode::Kind::kScalar) {
    complain(option, where,
             std::string(node.kind == YamlNode::Kind::kList ? "is a list" : "is a map") + ", not " +
                 (option.repeatable() ? "text" : name_of(option.kind)));
  } else if (node.quoted && !is_text && option.kind != Kind::kChoice) {
    complain(option, where,
             "is text, not " + std::string(name_of(option.kind)) + ": write it without quotes");
  } else {
    return true;
  }
  return false;
}

void Reader::read_scalar(const Option& option, const YamlNode& node, const std::string& where) {
  if (take_scalar(option, node, where)) {
    assign(option, Strength::kFile, {{node.text, where}});
  }
}

void Reader::read_items(const Option& option, const FileText& file, const YamlNode& member) {
  const bool is_map = option.kind == Kind::kPairs;
  if (member.kind != (is_map ? YamlNode::Kind::kMap : YamlNode::Kind::kList)) {
    return complain(option, place(file, member.key_line),
                    std::string("is not ") + name_of(option.kind));
  }
  std::vector<Placed> values;
  bool good = true;
  for (const YamlNode& item : member.items) {
    const std::string where = place(file, is_map ? item.key_line : item.line);
    if (item.key.find('=') != std::string::npos) {
      complain(option, where, "has a name with `=`");
      good = false;
    }
    good &= take_scalar(option, item, where);
    values.push_back({is_map ? item.key + "=" + item.text : item.text, where});
  }
  if (good) {
    assign(option, Strength::kFile, values);
  }
}

void Reader::read_flags(const std::vector<Given>& flags) {
  std::map<const Option*, std::vector<Placed>> by_option;
  for (const auto& [name, value] : flags) {
    if (const Option* option = table_.by_flag(name)) {
      by_option[option].push_back({value, name});
    }
  }
  for (const Option& option : table_.options()) {
    const auto found = by_option.find(&option);
    if (found == by_option.end()) {
      continue;
    }
    if (found->second.size() > 1 && !option.repeatable()) {
      complain(option, option.about.flag, "is given more than once");
    } else {
      assign(option, Strength::kFlag, found->second);
    }
  }
}

void Reader::unknown_variable(const std::string& name) {
  const std::string& prefix = table_.prefix();
  const std::string rest = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
  if (rest.empty() || is_of_a_service(rest)) {
    return;
  }
  // The prefix is the same in all of them: it must not make every name look near.
  std::vector<std::string> known;
  for (const Option& each : table_.options()) {
    if (each.about.variable.starts_with(prefix)) {
      known.push_back(each.about.variable.substr(prefix.size()));
    }
  }
  const std::string best = nearest(rest, known);
  complain("env " + name,
           "unknown variable" + (best.empty() ? "" : "; did you mean `" + prefix + best + "`?"));
}

void Reader::read_environment(const std::vector<Given>& environment) {
  for (const auto& [name, value] : environment) {
    const Option* option = table_.by_variable(name);
    if (option == nullptr) {
      unknown_variable(name);
      continue;
    }
    if (value.empty()) {
      continue;
    }
    assign(*option, Strength::kEnvironment, items_of(*option, value, "env " + name));
  }
}

void Reader::settle_exclusives() {
  for (const auto& [one, other] : table_.exclusives()) {
    const Origin first = reading_.origin_of(one);
    const Origin second = reading_.origin_of(other);
    if (first.strength == Strength::kDefault || second.strength == Strength::kDefault) {
      continue;
    }
    if (first.strength == second.strength) {
      complain(second.where, same_twice(one, other));
      continue;
    }
    const bool first_wins = first.strength > second.strength;
    table_.by_key(first_wins ? other : one)->store({});
    reading_.unused[first_wins ? other : one] = first_wins ? first : second;
  }
}

void Reader::look_for_missing() {
  for (const Option& option : table_.options()) {
    const About& about = option.about;
    if (about.required && !reading_.given.contains(about.key) && !bad_.contains(about.key)) {
      complain("", "`" + about.key + "` is required: give " + about.flag + ", " + about.variable +
                       ", or `" + about.key + "` in the file");
    }
  }
}

void Reader::apply_rules() {
  for (const Rule& rule : table_.rules()) {
    if (std::ranges::any_of(rule.keys, [&](const auto& key) { return bad_.contains(key); })) {
      continue;
    }
    const std::string problem = rule.problem();
    if (problem.empty()) {
      continue;
    }
    const auto culprit = std::ranges::find_if(
        rule.keys, [&](const auto& key) { return reading_.given.contains(key); });
    complain(culprit == rule.keys.end() ? "" : reading_.origin_of(*culprit).where, problem);
  }
}

}  // namespace

Origin Reading::origin_of(const std::string& key) const {
  const auto found = given.find(key);
  return found == given.end() ? Origin{} : found->second.back();
}

Reading read(const Table& table, const Sources& sources) {
  Reading reading;
  Reader reader(table, reading);
  bool all_known = !sources.file_is_unread;
  if (sources.file) {
    all_known &= reader.read_file(*sources.file);
  }
  reader.read_flags(sources.flags);
  reader.read_environment(sources.environment);
  reader.settle_exclusives();
  if (all_known) {
    reader.look_for_missing();
  }
  reader.apply_rules();
  if (reading.problems.size() == kMaxProblems) {
    reading.problems.push_back(
        {"", "no more than " + std::to_string(kMaxProblems) + " problems are shown"});
  }
  return reading;
}

}  // namespace sandboxkit::config
