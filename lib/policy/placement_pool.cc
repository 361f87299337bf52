#include "policy/placement_pool.h"

#include "policy/placement_choice.h"

#include <bit>

namespace sandboxkit::policy {
namespace {

/// Far above the rounding of a sum of doubles, far below any demand.
constexpr double kRelativeError = 1e-14;

struct Bounds {
  double least;  ///< A demand up to this fits for certain.
  double most;   ///< A demand above this does not for certain.
};

Bounds bounds_of(double used, double limit) {
  const double room = limit - used;
  const double error =
      2 * kRoundingSlack + kRelativeError * (std::max(limit, -limit) + std::max(used, -used));
  if (is_nan(room) || is_nan(error)) {
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  }
  return {room - error, room + error};
}

constexpr int kLevels = 8;
/// Level 1 begins at a quarter of a core and at 128 MB; each next one at twice that.
constexpr int kCpuShift = 3;
constexpr int kMemoryShift = -6;

int level_of(double amount, int shift) {
  if (!(amount > 0)) {
    return 0;
  }
  const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(amount) >> 52) - 1023;
  return std::clamp(exponent + shift, 0, kLevels - 1);
}

/// The bits of all shapes that are at least as large.
std::uint64_t shapes_from(const Demand& demand) {
  const int cpu = level_of(demand.cpu_cores, kCpuShift);
  const int memory = level_of(demand.memory_mb, kMemoryShift);
  const std::uint64_t row = (0xffU << memory) & 0xffU;
  const std::uint64_t rows = row * 0x0101010101010101U;
  return rows & (~std::uint64_t{0} << (kLevels * cpu));
}

}  // namespace

Entry entry_of(const PlacementPolicy& policy, const WorkerView& view) {
  const double load = load_with(policy, view, Demand{}, 0);
  return {.load = is_nan(load) ? 1 : load,
          .hash = draw_for(0, view.id.str()),
          .view = &view,
          .room = room_of(policy, view)};
}

void Summary::add(const Entry& entry) {
  const Room& room = entry.room;
  ++gates_[static_cast<std::size_t>(room.gate)];
  least_cpu_limit_ = std::min(least_cpu_limit_, room.cpu_limit);
  most_cpu_limit_ = std::max(most_cpu_limit_, room.cpu_limit);
  least_memory_limit_ = std::min(least_memory_limit_, room.memory_limit);
  most_memory_limit_ = std::max(most_memory_limit_, room.memory_limit);
  if (room.gate != Room::Gate::kOpen && room.gate != Room::Gate::kStartSlots) {
    return;
  }
  const Bounds cpu = bounds_of(room.used_cpu, room.cpu_limit);
  const Bounds memory = bounds_of(room.used_memory, room.memory_limit);
  least_cpu_ = std::min(least_cpu_, cpu.least);
  most_cpu_ = std::max(most_cpu_, cpu.most);
  most_memory_ = std::max(most_memory_, memory.most);
  if (room.gate == Room::Gate::kOpen) {
    open_cpu_ = std::max(open_cpu_, cpu.most);
    open_memory_ = std::max(open_memory_, memory.most);
    const int shape = kLevels * level_of(cpu.most, kCpuShift) + level_of(memory.most, kMemoryShift);
    shapes_ |= std::uint64_t{1} << shape;
  }
}

bool Summary::may_fit(const Demand& demand) const {
  return demand.cpu_cores <= open_cpu_ && demand.memory_mb <= open_memory_ &&
         (shapes_ & shapes_from(demand)) != 0;
}

bool Summary::count_refusals(const Demand& demand, Tally& tally) const {
  // Negated, so that a NaN is told apart at the entries.
  if (!fits(0, demand.cpu_cores, least_cpu_limit_) ||
      !fits(0, demand.memory_mb, least_memory_limit_)) {
    return false;
  }
  const std::int64_t rest = open() + at(Room::Gate::kStartSlots);
  Filter filter = Filter::kCpu;
  if (rest > 0 && !(most_cpu_ < demand.cpu_cores)) {
    if (!(demand.cpu_cores <= least_cpu_ && most_memory_ < demand.memory_mb)) {
      return false;
    }
    filter = Filter::kMemory;
  }
  of(tally, filter) += rest;
  of(tally, Filter::kState) += at(Room::Gate::kState);
  of(tally, Filter::kSandboxCap) += at(Room::Gate::kSandboxCap);
  return true;
}

void Pool::insert(const Entry& entry) {
  by_hash_.insert(entry);
  by_load_.insert(entry);
}

void Pool::erase(const Entry& entry) {
  by_hash_.erase(entry);
  by_load_.erase(entry);
}

void Pool::change(const Entry& before, const Entry& after) {
  by_hash_.replace(after);
  if (before.load == after.load) {
    by_load_.replace(after);
  } else {
    by_load_.erase(before);
    by_load_.insert(after);
  }
}

std::int64_t Pool::open() const {
  std::int64_t sum = 0;
  for (const auto& block : by_hash_.blocks()) {
    sum += block.summary.open();
  }
  return sum;
}

}  // namespace sandboxkit::policy
