#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit {

/// Counts up. Thread-safety: any thread; one relaxed addition.
class Counter {
 public:
  void add(std::uint64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// How values are spread, in buckets that are fixed at compile time. Thread-safety: any thread;
/// three relaxed additions at most.
class Histogram {
 public:
  static constexpr std::size_t kMaxBounds = 16;

  /// `bounds` rise strictly, are at most 16, and live as long as the histogram.
  explicit Histogram(std::span<const std::uint64_t> bounds);
  void observe(std::uint64_t value);

  std::span<const std::uint64_t> bounds() const { return bounds_; }
  std::uint64_t count_of(std::size_t bucket) const { return counts_[bucket].value(); }
  std::uint64_t sum() const { return sum_.value(); }

 private:
  std::span<const std::uint64_t> bounds_;
  std::array<Counter, kMaxBounds + 1> counts_{};
  Counter sum_;
};

/// From half a millisecond to half a minute, in microseconds.
inline constexpr std::array<std::uint64_t, 14> kMicrosecondBounds = {
    500,     1'000,   2'500,   5'000,     10'000,    25'000,     50'000,
    100'000, 250'000, 500'000, 1'000'000, 5'000'000, 10'000'000, 30'000'000};

/// Writes metrics as Prometheus reads them (text format 0.0.4).
///
/// Names and label names are ours and plain; label values are escaped. They never hold what a
/// tenant chose: names, ids, paths.
class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  /// Begins a family: its samples follow.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(const Labels& labels, double value);
  void sample(double value) { sample({}, value); }
  /// `unit` is what one counts, in the unit of the name: 1e-6 for microseconds.
  void histogram(const Labels& labels, const Histogram& histogram, double unit);
  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, const Labels& labels, double value);

  std::string name_;
  std::string text_;
};

/// What the kernel says of this process: resident memory and open descriptors.
void add_process_metrics(Exposition& out);

}  // namespace sandboxkit
