// The model test of the control plane: worlds of random operations, crashes and partitions.
#include "tests/model/world.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

using namespace sandboxkit::model;

constexpr std::int64_t kOperationsOfAWorld = 500;
constexpr std::int64_t kOperationsToRest = 40;
constexpr std::size_t kShownLines = 40;

const Shape kShapes[] = {
    {},
    {.name = "crowded", .tenants = 3, .workers = 3, .unscoped = 2, .worker_sandboxes = 2},
    {.name = "large",
     .tenants = 4,
     .workers = 8,
     .unscoped = 3,
     .worker_sandboxes = 6,
     .tenant_sandboxes = 12,
     .key_sandboxes = 5,
     .cpu_overcommit = 2,
     .names = 6,
     .keys = 8},
};

struct Options {
  std::uint64_t seed = 1;
  std::int64_t operations = 20'000;
  bool until_failure = false;
};

bool read_number(const char* text, auto& number) {
  const char* const end = text + std::strlen(text);
  return std::from_chars(text, end, number).ptr == end;
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--until-failure") {
      options.until_failure = true;
    } else if (i + 1 == argc ||
               (name == "--seed"         ? !read_number(argv[++i], options.seed)
                : name == "--operations" ? !read_number(argv[++i], options.operations)
                                         : true)) {
      return false;
    }
  }
  return true;
}

/// The last lines about what the violation is about, and about the whole world.
void show(const Violation& violation, const Trace& trace, std::uint64_t seed, const char* shape) {
  std::fprintf(stderr, "seed %llu (%s), operation %lld: %s\n  %s\n",
               static_cast<unsigned long long>(seed), shape,
               static_cast<long long>(trace.operation()), violation.invariant.c_str(),
               violation.what());
  std::vector<const Trace::Line*> lines;
  for (auto line = trace.lines().rbegin();
       line != trace.lines().rend() && lines.size() < kShownLines; ++line) {
    bool concerned = line->subjects.empty();
    for (const std::string& subject : line->subjects) {
      concerned |= violation.subjects.contains(subject);
    }
    if (concerned) {
      lines.push_back(&*line);
    }
  }
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const auto since = (*line)->time - SimClock().now();
    std::fprintf(stderr, "  %6lld %10.3f s  %s\n", static_cast<long long>((*line)->operation),
                 static_cast<double>(since.count()) / 1000, (*line)->text.c_str());
  }
  std::fprintf(stderr, "replay: --seed %llu --operations %lld\n",
               static_cast<unsigned long long>(seed), static_cast<long long>(kOperationsOfAWorld));
}

using Counts = std::map<std::string, std::int64_t>;

bool run_world(std::uint64_t seed, std::int64_t operations, Counts& counts) {
  const Shape& shape = kShapes[seed % std::size(kShapes)];
  World world(seed, shape);
  try {
    for (std::int64_t i = 1; i <= operations; ++i) {
      world.operation();
      if (i % kOperationsToRest == 0) {
        world.rest();
      }
    }
    world.rest();
    for (const auto& [what, times] : world.scene().counts) {
      counts[what] += times;
    }
  } catch (const Violation& violation) {
    show(violation, world.scene().trace, seed, shape.name);
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr, "usage: model_test [--seed N] [--operations N] [--until-failure]\n");
    return 2;
  }
  std::int64_t done = 0;
  Counts counts;
  for (std::uint64_t seed = options.seed; options.until_failure || done < options.operations;
       ++seed) {
    const std::int64_t now = options.until_failure
                                 ? kOperationsOfAWorld
                                 : std::min(kOperationsOfAWorld, options.operations - done);
    if (!run_world(seed, now, counts)) {
      std::fprintf(stderr, "%lld operations went well before\n", static_cast<long long>(done));
      return 1;
    }
    done += now;
  }
  for (const auto& [what, times] : counts) {
    std::printf("  %8lld  %s\n", static_cast<long long>(times), what.c_str());
  }
  std::printf("%lld operations, every invariant held\n", static_cast<long long>(done));
  return 0;
}
