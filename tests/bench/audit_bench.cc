// What a record of the permission gate's log costs: rendered, hashed and appended, on the disk.
// Usage: audit_bench [FOLDER]   (default: a folder of its own in the current one)

#include "sandboxkit/clock.h"

#include "audit/writer.h"
#include "tests/bench/bench.h"

#include <filesystem>
#include <string>

namespace {

using namespace sandboxkit;
using bench::Clock;

constexpr int kAppends = 20'000;
constexpr int kSyncs = 200;

audit::Record record(audit::Verdict verdict, int number) {
  audit::Record made;
  made.session = "s-0123456789";
  made.agent = "agent";
  made.decision = verdict;
  made.branch = "work_tree";
  const std::string path = "/home/u/project/src/file-" + std::to_string(number) + ".cc";
  made.items.push_back({.operation = "write", .requested = path, .canonical = path});
  return made;
}

void measure_log(const audit::LogOptions& options, const audit::Surroundings& machine) {
  auto log = audit::Log::open(options, machine);
  if (!log) {
    bench::give_up(log.error().message.c_str());
  }
  bench::Samples render;
  bench::Samples append;
  bench::Samples sync;
  for (int i = 0; i < kAppends; ++i) {
    const auto start = Clock::now();
    const audit::Fields fields =
        audit::render_fields(record(audit::Verdict::kAllow, i), (*log)->salt());
    render.add(start);
    const auto rendered = Clock::now();
    const Status written = (*log)->append({fields.what, machine.clock.now(), machine.ticks.now()});
    append.add(rendered);
    if (!written) {
      bench::give_up("append");
    }
    if (i % (kAppends / kSyncs) == 0) {
      const auto begun = Clock::now();
      if (!(*log)->commit()) {
        bench::give_up("commit");
      }
      sync.add(begun);
    }
  }
  render.print("render a record");
  append.print("hash and append a line");
  sync.print("sync data and head");
}

void measure_writer(const audit::LogOptions& options, const audit::Surroundings& machine) {
  auto writer = audit::Writer::open(options, machine);
  if (!writer) {
    bench::give_up(writer.error().message.c_str());
  }
  bench::Samples allowed;
  bench::Samples denied;
  for (int i = 0; i < kSyncs; ++i) {
    for (int k = 0; k < 10; ++k) {
      const auto start = Clock::now();
      if (!(*writer)->write(record(audit::Verdict::kAllow, i * 10 + k))) {
        bench::give_up("write");
      }
      allowed.add(start);
    }
    const auto start = Clock::now();
    if (!(*writer)->write(record(audit::Verdict::kDeny, i))) {
      bench::give_up("write");
    }
    denied.add(start);
  }
  allowed.print("an allowed write, as its caller waits");
  denied.print("a denial, as its caller waits");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "audit-bench." + std::to_string(::getpid());
  const audit::LogOptions options{.folder = folder, .key_file = folder + ".key"};
  const audit::Surroundings machine{system_clock(), audit::system_ticks(), system_random()};
  measure_log(options, machine);
  measure_writer(options, machine);
  std::filesystem::remove_all(folder);
  std::filesystem::remove(folder + ".key");
}
