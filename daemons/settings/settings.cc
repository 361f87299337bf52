#include "daemons/settings/settings.h"

#include "config/nearest.h"
#include "config/render.h"
#include "config/yaml.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::daemons {
namespace {

constexpr int kExitUsage = 2;
constexpr const char* kConfigKey = "config";
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

std::vector<config::Given> environment_now() {
  std::vector<config::Given> out;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string entry(*each);
    if (const auto equals = entry.find('='); equals != std::string::npos) {
      out.push_back({entry.substr(0, equals), entry.substr(equals + 1)});
    }
  }
  return out;
}

std::string help_of(const config::Option& option) {
  std::string out = option.about.help;
  if (option.repeatable()) {
    out += "; may be repeated";
  }
  if (!option.range.empty()) {
    out += " (" + option.range + ")";
  }
  if (const std::string fallback = config::default_of(option); !fallback.empty()) {
    out += " [default: " + fallback + "]";
  }
  return out + " [env: " + option.about.variable + "]";
}

/// The flags' raw texts, in the order of the table; what a text means is for the table to say.
struct Flags {
  std::vector<std::pair<const config::Option*, std::unique_ptr<std::vector<std::string>>>> given;

  void add_to(CLI::App& app, const config::Table& table) {
    for (const config::Option& option : table.options()) {
      auto& values =
          *given.emplace_back(&option, std::make_unique<std::vector<std::string>>()).second;
      app.add_option_function<std::string>(
             option.about.flag, [&values](const std::string& value) { values.push_back(value); },
             help_of(option))
          ->trigger_on_parse()
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->type_name("VALUE");
    }
  }
};

void read_file(const std::string& path, config::Sources& sources, config::Reading& reading) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  struct stat facts {};
  if (!file || fstat(fileno(file.get()), &facts) != 0) {
    sources.file_is_unread = true;
    reading.problems.push_back({path, "cannot be read: " + std::generic_category().message(errno)});
    return;
  }
  config::FileText text{.name = path, .text = {}, .open_to_others = (facts.st_mode & kOthers) != 0};
  std::array<char, 16'384> piece{};
  std::size_t got = 0;
  // One byte past the limit is enough for the parser to refuse it.
  while (text.text.size() <= config::kMaxFileBytes &&
         (got = std::fread(piece.data(), 1, piece.size(), file.get())) > 0) {
    text.text.append(piece.data(), got);
  }
  if (std::ferror(file.get()) != 0) {
    sources.file_is_unread = true;
    reading.problems.push_back({path, "cannot be read: " + std::generic_category().message(errno)});
    return;
  }
  sources.file = std::move(text);
}

/// Environment before flags, as for every option.
std::string path_of_file(const config::Option& option, const config::Sources& sources) {
  std::string path;
  for (const auto& [name, value] : sources.flags) {
    if (name == option.about.flag) {
      path = value;
    }
  }
  for (const auto& [name, value] : sources.environment) {
    if (name == option.about.variable && !value.empty()) {
      path = value;
    }
  }
  return path;
}

void refuse_extras(const std::vector<std::string>& extras, const config::Table& table,
                   config::Reading& reading) {
  std::vector<std::string> known;
  for (const config::Option& option : table.options()) {
    known.push_back(option.about.flag);
  }
  bool flag_seen = false;
  for (const std::string& extra : extras) {
    const std::string name = extra.substr(0, extra.find('='));
    if (extra.starts_with('-')) {
      reading.problems.push_back({name, "unknown flag" + config::did_you_mean(name, known)});
    } else if (!flag_seen) {
      // After an unknown flag this is its value: one slip, one problem.
      reading.problems.push_back({"", "unexpected argument `" + extra + "`"});
    }
    flag_seen = extra.starts_with('-') && extra == name;
  }
}

}  // namespace

void add_config_option(config::Table& table, std::string& path) {
  table.text({.key = kConfigKey, .help = "YAML file of options", .in_file = false}, path);
}

Settings read_settings(const Program& program, const config::Table& table, int argc, char** argv) {
  Settings settings;
  CLI::App app(program.purpose, program.name);
  app.set_version_flag("--version", SANDBOXKIT_VERSION);
  app.add_flag(
      "--check-config", settings.check_only,
      "print each option's value and where it is from, and end; 2 where something is wrong");
  app.footer("The environment beats flags, flags beat the file, the file beats the defaults.");
  app.allow_extras();
  Flags flags;
  flags.add_to(app, table);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    settings.exit_code = app.exit(error) == 0 ? 0 : kExitUsage;
    return settings;
  }
  config::Sources sources{.environment = environment_now()};
  for (const auto& [option, values] : flags.given) {
    for (const std::string& value : *values) {
      sources.flags.push_back({option->about.flag, value});
    }
  }
  config::Reading early;
  refuse_extras(app.remaining(), table, early);
  if (const std::string path = path_of_file(*table.by_key(kConfigKey), sources); !path.empty()) {
    read_file(path, sources, early);
  }
  settings.reading = config::read(table, sources);
  auto& problems = settings.reading.problems;
  problems.insert(problems.begin(), early.problems.begin(), early.problems.end());
  return settings;
}

std::optional<int> conclude(const Program& program, const config::Table& table,
                            const Settings& settings) {
  if (settings.exit_code) {
    return settings.exit_code;
  }
  for (const auto& [where, message] : settings.reading.problems) {
    std::fprintf(stderr, "%s: %s%s%s\n", program.name.c_str(), where.c_str(),
                 where.empty() ? "" : ": ", message.c_str());
  }
  if (!settings.reading.problems.empty()) {
    return kExitUsage;
  }
  if (!settings.check_only) {
    return std::nullopt;
  }
  const std::string lines = config::effective_lines(table, settings.reading);
  const bool written = std::fputs(lines.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace sandboxkit::daemons
