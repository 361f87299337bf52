// Durable placements a second through the one transaction of a create, and pages of a long list.
//
//   build/tests/bench/control_bench [FOLDER [--placements]]
//
// FOLDER is on the disk that is measured (default .); --placements leaves the long list out.
//
// The peer in the same run is the disk itself: one write and fdatasync of a commit's size, one
// after the other, which is what a store without group commit pays for each placement.

#include "sandboxkit/relax/unwalled_egress.h"

#include "control/context.h"
#include "control/create.h"
#include "control/roster.h"
#include "tests/bench/bench.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

namespace {

using namespace sandboxkit;
using namespace sandboxkit::control;
using bench::give_up;
using bench::Samples;
using bench::seconds_since;

constexpr int kTenants = 200;

struct Silence final : EventSink {
  void tell(const Event&) override {}
};

struct World {
  explicit World(const std::string& the_folder)
      : folder(the_folder),
        config{folder},
        store(open(folder)),
        roster(config, system_clock(), *store) {
    config.max_sandboxes_per_workspace = 100'000'000;
    store->on_change([this](const std::vector<std::string>& workers) {
      for (const std::string& worker : workers) {
        roster.changed(worker);
      }
    });
  }

  static std::unique_ptr<store::Store> open(const std::string& folder) {
    auto opened = store::open_sqlite(folder + "/bench.db");
    if (!opened) {
      give_up(opened.error().message.c_str());
    }
    return std::move(*opened);
  }

  void add_workers(int count) {
    const Status written = store->write([&](store::Tx& tx) -> Status {
      for (int i = 0; i < count; ++i) {
        store::WorkerRow row{"w-" + std::to_string(i)};
        row.name = row.id;
        row.tenant = i % 2 == 0 ? "" : "t" + std::to_string(i % kTenants);
        row.arch = "amd64";
        row.cpu_cores = 1024;
        row.memory_mb = 1 << 24;
        row.max_sandboxes = 1'000'000;
        row.max_starting = 1'000'000;
        row.capabilities = R"(["egress"])";
        row.runtimes = R"(["runc"])";
        row.joined = system_clock().now();
        if (auto inserted = tx.insert(row); !inserted) {
          return inserted;
        }
      }
      return {};
    });
    if (!written || !roster.load()) {
      give_up("workers");
    }
    for (int i = 0; i < count; ++i) {
      roster.set_online("w-" + std::to_string(i), true);
    }
    if (!roster.refresh()) {
      give_up("refresh");
    }
  }

  void create(int number) {
    const std::string tenant = "t" + std::to_string(number % kTenants);
    CreateOrder order{Caller{policy::Role::kOwner, tenant, "key"},
                      *TenantId::parse(tenant),
                      SandboxSpec{.image = "x", .egress = Egress::unwalled(UnwalledEgress{})},
                      "i" + std::to_string(number),
                      "",
                      "",
                      static_cast<std::uint64_t>(number)};
    order.spec.cpu_cores = 0.1;
    order.spec.memory_mb = 16;
    const auto decision = decide_create(context, order);
    if (!decision || decision->refusal) {
      give_up(decision ? decision->refusal->body.c_str() : decision.error().message.c_str());
    }
  }

  const std::string folder;
  ControllerConfig config;
  Silence events;
  std::unique_ptr<store::Store> store;
  io::EventLoop loop;
  Pool pool{1, 16};
  Roster roster;
  Metrics metrics;
  Context context{config, system_clock(), events, *store, loop, pool, roster, "c-bench", metrics};
};

/// Commits a second that the disk itself allows, one after the other.
double disk_commits(const std::string& folder) {
  constexpr int kCommits = 200;
  const std::string path = folder + "/disk";
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) {
    give_up("open");
  }
  const std::string page(16 * 1024, 'x');
  // In place, as a log that is used again: a file that grows would pay for its metadata as well.
  for (int i = 0; i < kCommits; ++i) {
    if (::write(fd, page.data(), page.size()) < 0) {
      give_up("write");
    }
  }
  ::fsync(fd);
  const auto start = bench::Clock::now();
  for (int i = 0; i < kCommits; ++i) {
    if (::pwrite(fd, page.data(), page.size(), i * static_cast<off_t>(page.size())) < 0 ||
        ::fdatasync(fd) != 0) {
      give_up("fdatasync");
    }
  }
  ::close(fd);
  return kCommits / seconds_since(start);
}

void measure_placements(World& world, double disk, int& number) {
  for (const int threads : {1, 8, 64}) {
    const int each = 4096 / threads;
    std::vector<std::thread> callers;
    std::vector<Samples> samples(static_cast<std::size_t>(threads));
    const int first = number;
    const auto start = bench::Clock::now();
    for (int t = 0; t < threads; ++t) {
      callers.emplace_back([&, t] {
        for (int i = 0; i < each; ++i) {
          const auto begun = bench::Clock::now();
          world.create(first + t * each + i);
          samples[static_cast<std::size_t>(t)].add(begun);
        }
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    const double rate = threads * each / seconds_since(start);
    number += threads * each;
    std::printf(
        "durable placements, %2d callers: %7.0f/s, %5.2f x the disk's own commits (%.0f/s)\n",
        threads, rate, rate / disk, disk);
    samples[0].print("  one caller waits");
  }
}

void fill(World& world, int rows) {
  const auto start = bench::Clock::now();
  for (int done = 0; done < rows;) {
    const Status written = world.store->write([&](store::Tx& tx) -> Status {
      for (int i = 0; i < 20'000; ++i) {
        store::SandboxRow row{.id = "z" + std::to_string(10'000'000 + done + i),
                              .tenant = "t1",
                              .spec = R"({"image":"x","egress":null})",
                              .spec_hash = "h"};
        row.worker = "w-0";
        row.state = i % 10 == 0 ? "running" : "stopped";
        row.cpu_cores = 0.1;
        row.memory_mb = 16;
        if (auto inserted = tx.insert(row); !inserted) {
          return inserted;
        }
      }
      return {};
    });
    if (!written) {
      give_up("fill");
    }
    done += 20'000;
  }
  std::printf("filled %d rows in %.1f s\n", rows, seconds_since(start));
}

void measure_lists(World& world) {
  Samples samples;
  std::string after;
  for (int page = 0; page < 200; ++page) {
    const auto begun = bench::Clock::now();
    const Status read = world.store->read([&](store::Tx& tx) -> Status {
      auto rows = tx.sandboxes({.tenant = "t1", .after = after, .limit = 100});
      if (!rows || rows->size() != 100) {
        give_up("list");
      }
      after = rows->back().id;
      return {};
    });
    samples.add(begun);
    if (!read) {
      give_up("read");
    }
  }
  samples.print("a page of 100 of a million sandboxes");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder =
      (argc > 1 ? std::string(argv[1]) : std::string(".")) + "/control_bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  {
    World world(folder);
    world.add_workers(1000);
    int number = 0;
    measure_placements(world, disk_commits(folder), number);
    if (argc <= 2) {
      fill(world, 1'000'000);
      measure_lists(world);
    }
  }
  std::filesystem::remove_all(folder);
  return 0;
}
