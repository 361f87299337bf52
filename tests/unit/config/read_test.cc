#include "config/read.h"

#include "config/render.h"

#include <chrono>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit::config;
using namespace std::chrono_literals;

namespace {

/// One option of each kind, bound to values that a test can look at.
struct World {
  std::string folder;
  std::string token;
  std::string token_file;
  std::int64_t count = 5;
  std::chrono::milliseconds wait{1000};
  double ratio = 1.5;
  bool on = false;
  int level = 1;
  std::vector<std::string> dns;
  std::map<std::string, std::string> labels;
  Table table{"APP_"};

  World() {
    table.text({.key = "folder", .help = "a folder", .required = true}, folder);
    table.text({.key = "token", .help = "a token", .variable = "TOKEN", .secret = true}, token);
    table.text({.key = "token_file", .help = "its file"}, token_file);
    table.exclusive("token", "token_file");
    table.integer({.key = "count", .help = "how many"}, count, {1, 10});
    table.time<std::chrono::milliseconds>({.key = "wait_ms", .help = "how long"}, wait,
                                          {1, 60'000});
    table.decimal({.key = "part.ratio", .help = "how much"}, ratio, 0.5, 8);
    table.boolean({.key = "part.on", .help = "whether"}, on);
    table.choice({.key = "log.level", .help = "how loud"}, level, {{"low", 1}, {"high", 2}});
    table.list({.key = "dns", .help = "who", .default_words = "nobody"}, dns);
    table.pairs({.key = "labels", .help = "marks", .flag = "--label"}, labels);
    table.text({.key = "config", .help = "the file", .in_file = false}, config);
    table.rule({{"wait_ms", "count"}, [this]() -> std::string {
                  return wait < count * 10ms ? "`wait_ms` must be 10 or more for each of `count`"
                                             : "";
                }});
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Reading read(const std::string& yaml, std::vector<Given> flags = {},
               std::vector<Given> environment = {}, bool open_to_others = false) {
    return sandboxkit::config::read(table,
                                    {.file = FileText{"f", "folder: /x\n" + yaml, open_to_others},
                                     .flags = std::move(flags),
                                     .environment = std::move(environment)});
  }
  /// All problems as a person sees them.
  std::string problems(const std::string& yaml, std::vector<Given> flags = {},
                       std::vector<Given> environment = {}) {
    std::string out;
    for (const auto& [where, message] :
         read(yaml, std::move(flags), std::move(environment)).problems) {
      out += where + ": " + message + "\n";
    }
    return out;
  }

  std::string config;
};

}  // namespace

TEST_CASE("the environment beats flags, flags beat the file, the file beats the defaults") {
  const std::string file = "count: 2\n";
  const std::vector<Given> flag{{"--count", "3"}};
  const std::vector<Given> variable{{"APP_COUNT", "4"}};
  for (int sources = 0; sources < 8; ++sources) {
    CAPTURE(sources);
    World world;
    const Reading reading =
        world.read((sources & 1) != 0 ? file : "", (sources & 2) != 0 ? flag : std::vector<Given>{},
                   (sources & 4) != 0 ? variable : std::vector<Given>{});
    CHECK(reading.problems.empty());
    const Origin origin = reading.origin_of("count");
    if ((sources & 4) != 0) {
      CHECK(world.count == 4);
      CHECK(origin.where == "env APP_COUNT");
    } else if ((sources & 2) != 0) {
      CHECK(world.count == 3);
      CHECK(origin.where == "--count");
    } else if ((sources & 1) != 0) {
      CHECK(world.count == 2);
      CHECK(origin.where == "f:2");
    } else {
      CHECK(world.count == 5);
      CHECK(origin.where == "default");
    }
  }
}

TEST_CASE("every kind is read from the file") {
  World world;
  CHECK(world.problems(
            "token: t\ncount: 7\nwait_ms: 500\npart:\n  ratio: 2.5\n  on: true\n"
            "log: {level: high}\ndns: [1.1.1.1, '9.9.9.9']\nlabels: {zone: eu, n: 1}\n") == "");
  CHECK(world.folder == "/x");
  CHECK(world.token == "t");
  CHECK(world.count == 7);
  CHECK(world.wait == 500ms);
  CHECK(world.ratio == 2.5);
  CHECK(world.on);
  CHECK(world.level == 2);
  CHECK(world.dns == std::vector<std::string>{"1.1.1.1", "9.9.9.9"});
  CHECK(world.labels == std::map<std::string, std::string>{{"n", "1"}, {"zone", "eu"}});
}

TEST_CASE("every kind is read from flags, and lists from repeated ones") {
  World world;
  CHECK(world.problems("dns: [x]\n", {{"--dns", "a"},
                                      {"--dns", "b,c"},
                                      {"--label", "zone=eu=1"},
                                      {"--part-on", "true"},
                                      {"--part-ratio", "3"},
                                      {"--log-level", "HIGH"},
                                      {"--wait-ms", "700"}}) == "");
  CHECK(world.dns == std::vector<std::string>{"a", "b,c"});
  CHECK(world.labels == std::map<std::string, std::string>{{"zone", "eu=1"}});
  CHECK(world.on);
  CHECK(world.ratio == 3);
  CHECK(world.level == 2);
  CHECK(world.wait == 700ms);
}

TEST_CASE("lists of the environment are split at commas, and an empty variable counts as absent") {
  World world;
  CHECK(
      world.problems(
          "count: 2\n", {},
          {{"APP_DNS", "a, b"}, {"APP_LABELS", "x=1,y=2"}, {"APP_COUNT", ""}, {"PATH", "/bin"}}) ==
      "");
  CHECK(world.dns == std::vector<std::string>{"a", "b"});
  CHECK(world.labels.size() == 2);
  CHECK(world.count == 2);
}

TEST_CASE("what is wrong is named with its place and what would be right") {
  struct Row {
    const char* yaml;
    const char* problem;
  };
  for (const Row& row : {
           Row{"cuont: 1\n", "f:2: unknown key `cuont`; did you mean `count`?\n"},
           Row{"colour: red\n", "f:2: unknown key `colour`\n"},
           Row{"part:\n  ratoi: 1\n",
               "f:3: unknown key `part.ratoi`; did you mean `part.ratio`?\n"},
           Row{"level: high\n", "f:2: unknown key `level`; did you mean `level` in `log:`?\n"},
           Row{"log:\n  count: 1\n",
               "f:3: unknown key `log.count`; did you mean `count` at the top?\n"},
           Row{"log.level: high\n",
               "f:2: unknown key `log.level`; did you mean `level` in `log:`?\n"},
           Row{"config: x\n", "f:2: unknown key `config`\n"},
           Row{"prat: {on: true}\n", "f:2: unknown key `prat`; did you mean `part`?\n"},
           Row{"part: 1\n", "f:2: `part` is a section: a map of options\n"},
           Row{"count: 0\n", "f:2: `count` `0` is out of range (1 to 10)\n"},
           Row{"count: 11\n", "f:2: `count` `11` is out of range (1 to 10)\n"},
           Row{"count: 1_0\n",
               "f:2: `count` `1_0` is not a plain decimal whole number (1 to 10)\n"},
           Row{"count: 010\n",
               "f:2: `count` `010` is not a plain decimal whole number (1 to 10)\n"},
           Row{"count: \"5\"\n",
               "f:2: `count` is text, not a whole number: write it without quotes\n"},
           Row{"count: [5]\n", "f:2: `count` is a list, not a whole number\n"},
           Row{"count:\n", "f:2: `count` has no value\n"},
           Row{"count: ~\n", "f:2: `count` has no value\n"},
           Row{"part:\n  on: yes\n", "f:3: `part.on` `yes` is neither `true` nor `false`\n"},
           Row{"part:\n  on: True\n", "f:3: `part.on` `True` is neither `true` nor `false`\n"},
           Row{"part:\n  ratio: 9\n", "f:3: `part.ratio` `9` is out of range (0.5 to 8)\n"},
           Row{"part:\n  ratio: 1e0\n",
               "f:3: `part.ratio` `1e0` is not a plain decimal number (0.5 to 8)\n"},
           Row{"log: {level: loud}\n", "f:2: `log.level` `loud` is none of low | high\n"},
           Row{"dns: 1.1.1.1\n", "f:2: `dns` is not a list\n"},
           Row{"dns:\n- a\n- [b]\n", "f:4: `dns` is a list, not text\n"},
           Row{"dns:\n- a\n- ~\n", "f:4: `dns` has no value\n"},
           Row{"labels: [a=b]\n", "f:2: `labels` is not a map\n"},
           Row{"labels: {'a=b': c}\n", "f:2: `labels` has a name with `=`\n"},
           Row{"wait_ms: 20\n", "f:2: `wait_ms` must be 10 or more for each of `count`\n"},
       }) {
    CAPTURE(row.yaml);
    World world;
    CHECK(world.problems(row.yaml) == row.problem);
  }
}

TEST_CASE("a value that was not taken leaves the bound one alone") {
  World world;
  CHECK_FALSE(world.read("count: 99\nlabels: {a: [b]}\n").problems.empty());
  CHECK(world.count == 5);
  CHECK(world.labels.empty());
}

TEST_CASE("all problems are told, of all sources, also those of values that lose") {
  World world;
  CHECK(world.problems("count: x\nbogus: 1\n", {{"--wait-ms", "0"}}, {{"APP_COUNT", "3"}}) ==
        "f:2: `count` `x` is not a plain decimal whole number (1 to 10)\n"
        "f:3: unknown key `bogus`\n"
        "--wait-ms: `wait_ms` `0` is out of range (1 to 60000)\n");
}

TEST_CASE("the number of problems has a limit, and passing it is told") {
  const auto told = [](std::size_t count) {
    std::string yaml;
    for (std::size_t i = 0; i < count; ++i) {
      yaml += "unknown" + std::to_string(i) + ": 1\n";
    }
    World world;
    return world.read(yaml).problems;
  };
  CHECK(told(99).size() == 99);
  CHECK(told(400).size() == 101);
  CHECK(told(400).back().message == "no more than 100 problems are shown");
}

TEST_CASE("what is required is missed with all the ways to give it") {
  World world;
  const Reading reading = read(world.table, {});
  REQUIRE(reading.problems.size() == 1);
  CHECK(reading.problems[0].message ==
        "`folder` is required: give --folder, APP_FOLDER, or `folder` in the file");
}

TEST_CASE("what a file may hold that cannot be read is not missed") {
  World world;
  const FileText broken{"f", "folder: [\n", false};
  const Reading reading = read(world.table, {.file = broken});
  REQUIRE(reading.problems.size() == 1);
  CHECK(reading.problems[0].message.starts_with("not YAML"));
  CHECK(read(world.table, {.file_is_unread = true}).problems.empty());
}

TEST_CASE("an option that is given twice on the command line is refused") {
  World world;
  CHECK(world.problems("", {{"--count", "2"}, {"--count", "2"}}) ==
        "--count: `count` is given more than once\n");
  CHECK(world.problems("", {{"--label", "a=1"}, {"--label", "a=2"}}).find("has `a` twice") !=
        std::string::npos);
}

TEST_CASE("a variable that nobody knows is refused when it has our prefix") {
  World world;
  CHECK(world.problems("", {}, {{"APP_CUONT", "1"}}) ==
        "env APP_CUONT: unknown variable; did you mean `APP_COUNT`?\n");
  CHECK(world.problems("", {}, {{"APP_ZZZ", "1"}}) == "env APP_ZZZ: unknown variable\n");
  CHECK(world.problems("", {}, {{"APPLE", "1"}, {"OTHER_COUNT", "1"}}) == "");
  // Kubernetes makes these for a service that is called `app`.
  CHECK(world.problems("", {},
                       {{"APP_SERVICE_HOST", "10.0.0.1"},
                        {"APP_PORT", "tcp://10.0.0.1:80"},
                        {"APP_PORT_80_TCP_ADDR", "10.0.0.1"}}) == "");
}

TEST_CASE("a secret in a file that others can read is refused with the way out") {
  World world;
  const Reading reading = world.read("token: hidden\n", {}, {}, true);
  REQUIRE(reading.problems.size() == 1);
  CHECK(reading.problems[0].where == "f:2");
  CHECK(reading.problems[0].message.find("chmod 600 f") != std::string::npos);
  CHECK(reading.problems[0].message.find("TOKEN") != std::string::npos);
  CHECK(world.read("token: hidden\n").problems.empty());
  CHECK(world.read("count: 1\n", {}, {}, true).problems.empty());
}

TEST_CASE("no problem and no line holds a secret") {
  World world;
  const std::string bad = "hid\\x07den";
  const Reading reading = world.read("token: \"" + bad + "\"\n", {}, {{"TOKEN", "hid\nden"}});
  REQUIRE(reading.problems.size() == 2);
  for (const Problem& problem : reading.problems) {
    CHECK(problem.message.find("hid") == std::string::npos);
  }
  CHECK(effective_lines(world.table, world.read("token: hidden\n")).find("hidden") ==
        std::string::npos);
}

TEST_CASE("of two options that say the same the stronger counts, and equals are refused") {
  World world;
  CHECK(world.problems("token: a\ntoken_file: b\n") ==
        "f:3: `token` and `token_file` say the same: give one of them\n");
  World other;
  const Reading reading = other.read("token_file: b\n", {}, {{"TOKEN", "a"}});
  CHECK(reading.problems.empty());
  CHECK(other.token == "a");
  CHECK(other.token_file.empty());
  CHECK(effective_lines(other.table, reading)
            .find("token_file = \"\"  # f:2, unused: env TOKEN is stronger\n") !=
        std::string::npos);
}

TEST_CASE("each effective value is shown with its source and with those that it beat") {
  World world;
  const Reading reading =
      world.read("count: 2\ntoken: a\ndns: [x, y]\n", {{"--count", "3"}, {"--wait-ms", "99"}},
                 {{"APP_COUNT", "4"}, {"TOKEN", "b"}});
  CHECK(effective_lines(world.table, reading) ==
        "folder = \"/x\"  # f:1\n"
        "token = (set)  # env TOKEN (over f:3)\n"
        "token_file = \"\"  # default\n"
        "count = 4  # env APP_COUNT (over --count, f:2)\n"
        "wait_ms = 99  # --wait-ms\n"
        "part.ratio = 1.5  # default\n"
        "part.on = false  # default\n"
        "log.level = low  # default\n"
        "dns = [x, y]  # f:4\n"
        "labels = []  # default\n"
        "config = \"\"  # default\n");
}

TEST_CASE("the documentation has a row an option, with bars that do not end a cell") {
  World world;
  const std::string page = markdown(world.table);
  CHECK(page.find("| `count` | `--count` | `APP_COUNT` | 1 to 10 | 5 | how many |\n") !=
        std::string::npos);
  CHECK(page.find("low \\| high") != std::string::npos);
  CHECK(page.find("| - | `--config` |") != std::string::npos);
  CHECK(page.find("; a secret |") != std::string::npos);
  CHECK(page.find("| (required) | a folder |") != std::string::npos);
}
