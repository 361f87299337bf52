// What a decision of the permission gate costs on files that were seen already: by the plain scan
// of every rule and grant, narrowed by the indexes, and with the protected objects kept over
// requests. Usage: gate_bench [ROUNDS]   Ratios are of one run; the figures in microseconds are
// this machine's.

#include "sandboxkit/gate.h"
#include "sandboxkit/system_eyes.h"

#include "gate/plain_scan.h"
#include "tests/bench/bench.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using namespace sandboxkit;

using Op = GateOperation;

constexpr int kDefaultRounds = 20;
constexpr int kFewRounds = 3;
constexpr std::size_t kGrants[] = {0, 100, 10'000};
constexpr WallTime kNow{std::chrono::milliseconds{1'000'000}};
const std::string kHome = "/home/u";
const std::string kTree = "/home/u/proj";

/// Files that are seen without asking the machine: each look is one search in a table.
class TableEyes final : public FileEyes {
 public:
  void add(const std::string& path, FileType type = FileType::kFile) {
    SeenPath seen{.canonical = path};
    seen.file = FileFacts{.identity = {1, ++inodes_}, .type = type, .mode = 0755};
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
      const std::string above = path.substr(0, at);
      if (!seen_.contains(above)) {
        add(above, FileType::kDirectory);
      }
      seen.above.push_back(seen_.at(above).file->identity);
    }
    seen_[path] = seen;
  }
  Result<SeenPath> look(const LookAt& at) const override {
    const std::string path = at.path.starts_with('/') ? at.path : at.cwd + "/" + at.path;
    const auto found = seen_.find(path);
    return found != seen_.end() ? found->second : SeenPath{.canonical = path};
  }
  Status walk(const WalkFrom&, const WalkVisitor&) const override { return {}; }

 private:
  std::unordered_map<std::string, SeenPath> seen_;
  std::uint64_t inodes_ = 1;
};

struct Row {
  const char* what;
  GateItem item;
  GateAnswer expected;
};

std::vector<Row> rows() {
  const auto item = [](Op operation, const std::string& path) {
    return GateItem{.operation = operation, .target = path};
  };
  return {
      {"read of a file in the tree", item(Op::kRead, kTree + "/src/a.c"), GateAnswer::kAllow},
      {"write of a file in the tree", item(Op::kWrite, kTree + "/src/a.c"), GateAnswer::kAllow},
      {"read of a header", item(Op::kRead, "/usr/include/stdio.h"), GateAnswer::kAllow},
      {"read of a key", item(Op::kRead, kHome + "/.ssh/id_rsa"), GateAnswer::kDeny},
      {"delete of a file in the tree", item(Op::kDelete, kTree + "/src/a.c"), GateAnswer::kAllow},
      {"write that nobody granted", item(Op::kWrite, "/srv/other/file"), GateAnswer::kAsk},
      {"read by the last grant", item(Op::kRead, "/srv/data/set0/file"), GateAnswer::kAllow},
      {"a variable", item(Op::kEnv, "LANG"), GateAnswer::kAllow}};
}

std::vector<PermanentGrant> grants(const FileIdentity& tree, std::size_t count) {
  std::vector<PermanentGrant> made;
  for (std::size_t i = count; i-- > 0;) {
    made.push_back(
        {.id = "g_" + std::to_string(i),
         .use = {.operations = {Op::kRead}, .target = "/srv/data/set" + std::to_string(i) + "/**"},
         .tree = kTree,
         .tree_identity = tree,
         .agent = "agent",
         .needs_box = false,
         .expires = {}});
  }
  return made;
}

/// Of this thread, so that what else the machine does is not counted.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Microseconds of CPU of the median batch, for one decision.
template <typename Decide>
double median_of(int rounds, int batch, const Row& row, Decide decide) {
  bench::Samples samples;
  for (int round = 0; round < rounds; ++round) {
    const double start = cpu_seconds();
    for (int i = 0; i < batch; ++i) {
      const GateDecision decision = decide();
      if (decision.answer != row.expected &&
          !(row.expected == GateAnswer::kAllow && decision.answer == GateAnswer::kAsk)) {
        bench::give_up("a decision was wrong");
      }
    }
    samples.add_seconds((cpu_seconds() - start) / batch);
  }
  return samples.median();
}

void measure(std::size_t count, int rounds) {
  TableEyes eyes;
  for (const std::string& path :
       {kTree + "/src/a.c", std::string("/usr/include/stdio.h"), kHome + "/.ssh/id_rsa",
        kHome + "/.bashrc", std::string("/srv/data/set0/file"), std::string("/srv/other/file")}) {
    eyes.add(path);
  }
  const auto tree = eyes.look({.cwd = "/", .path = kTree});
  const auto gate = PermissionGate::create({.tree = kTree,
                                            .tree_identity = tree->file->identity,
                                            .home = kHome,
                                            .agent = "agent",
                                            .state_dirs = {kHome + "/.local/state/x"},
                                            .program_dirs = {"/usr/local/bin", "/usr/bin"},
                                            .box_is_active = true},
                                           GatePolicy::shipped(), PermissionMode::kPrompt);
  const auto compiled = gate->compile(grants(tree->file->identity, count), {});
  const ProtectedObjects objects = gate->look_at_protected(eyes);
  constexpr int kBatch = 500;
  std::printf("%zu grants, us of CPU a decision %27s %9s %9s %9s %12s\n", count, "plain", "indexed",
              "kept", "ratio", "decisions/s");
  for (const Row& row : rows()) {
    const GateRequest request{.cwd = kTree, .items = {row.item}};
    const double plain = median_of(kFewRounds, kBatch / 10, row, [&] {
      return gate::PlainScan::decide(*gate, request, *compiled, eyes, kNow);
    });
    const double indexed = median_of(rounds, kBatch / 5, row,
                                     [&] { return gate->decide(request, *compiled, eyes, kNow); });
    const double kept = median_of(
        rounds, kBatch, row, [&] { return gate->decide(request, *compiled, eyes, kNow, objects); });
    std::printf("  %-58s %9.2f %9.2f %9.2f %8.0fx %12.0f\n", row.what, plain, indexed, kept,
                plain / kept, 1e6 / kept);
  }
}

/// The same on real files, where looking is most of it.
void measure_real(int rounds) {
  const auto tree = system_eyes().look({.cwd = "/", .path = "/usr/share"});
  const auto gate = PermissionGate::create({.tree = "/usr/share",
                                            .tree_identity = tree->file->identity,
                                            .home = "/root",
                                            .agent = "agent"},
                                           GatePolicy::shipped(), PermissionMode::kPrompt);
  if (!gate) {
    bench::give_up("no gate");
  }
  const ProtectedObjects objects = gate->look_at_protected(system_eyes());
  const Row row{
      "read of a real file", {.operation = Op::kRead, .target = "/etc/hosts"}, GateAnswer::kAllow};
  const GateRequest request{.cwd = "/", .items = {row.item}};
  constexpr int kBatch = 20;
  const double plain = median_of(kFewRounds, kBatch, row, [&] {
    return gate::PlainScan::decide(*gate, request, {}, system_eyes(), kNow);
  });
  const double kept = median_of(
      rounds, kBatch, row, [&] { return gate->decide(request, {}, system_eyes(), kNow, objects); });
  std::printf("%-60s %9.2f %9s %9.2f %8.0fx %12.0f\n", row.what, plain, "", kept, plain / kept,
              1e6 / kept);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : kDefaultRounds;
  for (const std::size_t count : kGrants) {
    measure(count, rounds);
  }
  measure_real(rounds);
}
