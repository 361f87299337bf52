#include "base/text.h"
#include "config/read.h"
#include "config/render.h"
#include "config/yaml.h"
#include "tests/fuzz/fuzz_input.h"

#include <algorithm>
#include <set>
#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr const char* kName = "f.yaml";

struct Seen {
  std::size_t nodes = 0;
  std::size_t deepest = 0;
};

void look_at(const config::YamlNode& node, int lines, std::size_t depth, Seen& seen) {
  PROMISE(node.line >= 1 && node.line <= lines, "a value stands on a line of the file");
  const bool leaf =
      node.kind == config::YamlNode::Kind::kScalar || node.kind == config::YamlNode::Kind::kEmpty;
  ++seen.nodes;
  seen.deepest = std::max(seen.deepest, leaf ? depth : depth + 1);
  PROMISE(node.text.empty() || node.kind == config::YamlNode::Kind::kScalar,
          "a scalar alone has text");
  std::set<std::string> keys;
  for (const config::YamlNode& item : node.items) {
    PROMISE(node.kind == config::YamlNode::Kind::kList || keys.insert(item.key).second,
            "a key stands in a map once");
    PROMISE(item.key_line >= 1 && item.key_line <= lines, "a key stands on a line of the file");
    look_at(item, lines, depth + 1, seen);
  }
}

struct Options {
  std::string folder;
  std::string token;
  std::int64_t count = 5;
  double ratio = 1;
  bool on = false;
  int level = 1;
  std::vector<std::string> dns;
  std::map<std::string, std::string> labels;
};

config::Table table_of(Options& options) {
  config::Table table("APP_");
  table.text({.key = "folder", .help = ""}, options.folder);
  table.text({.key = "token", .help = "", .secret = true}, options.token);
  table.integer({.key = "count", .help = ""}, options.count, {1, 10});
  table.decimal({.key = "part.ratio", .help = ""}, options.ratio, 0.5, 8);
  table.boolean({.key = "part.on", .help = ""}, options.on);
  table.choice({.key = "log.level", .help = ""}, options.level, {{"low", 1}, {"high", 2}});
  table.list({.key = "dns", .help = ""}, options.dns);
  table.pairs({.key = "labels", .help = ""}, options.labels);
  return table;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const std::string text(input.rest());
  // A file's last line need not end, and what is absent may be noticed on the one after it.
  const int lines = static_cast<int>(std::ranges::count(text, '\n')) + 2;
  const config::Document document = config::parse_yaml(text, kName);
  Seen seen;
  look_at(document.root, lines, 0, seen);
  PROMISE(seen.deepest <= config::kMaxDepth, "the depth has a limit");
  PROMISE(seen.nodes <= config::kMaxNodes, "the number of values has a limit");
  for (const config::Problem& problem : document.problems) {
    PROMISE(problem.where.starts_with(std::string(kName) + ":"), "a problem has its place");
    PROMISE(is_utf8(problem.message), "a problem can be printed");
  }

  Options options;
  const config::Table table = table_of(options);
  const config::Reading reading =
      config::read(table, {.file = config::FileText{kName, text, false}});
  PROMISE(reading.problems.size() >= document.problems.size() ||
              reading.problems.size() >= config::kMaxProblems,
          "no problem of the file is lost");
  PROMISE(options.count >= 1 && options.count <= 10, "a whole number stays in its range");
  PROMISE(options.ratio >= 0.5 && options.ratio <= 8, "a number stays in its range");
  PROMISE(options.level == 1 || options.level == 2, "a choice is one of its words");
  for (const config::Problem& problem : reading.problems) {
    PROMISE(!has_control_characters(problem.message), "a problem is one line");
  }
  const std::string shown = config::effective_lines(table, reading);
  PROMISE(static_cast<std::size_t>(std::ranges::count(shown, '\n')) == table.options().size(),
          "each option is one line");
  return 0;
}
