#include "base/metrics.h"

#include <array>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

TEST_CASE("a histogram's buckets add up, and a bound belongs to its own bucket") {
  static constexpr std::array<std::uint64_t, 2> kBounds = {10, 20};
  Histogram histogram(kBounds);
  for (const std::uint64_t value : {0U, 10U, 11U, 20U, 21U}) {
    histogram.observe(value);
  }
  Exposition out;
  out.family("x_seconds", "histogram", "Help.");
  out.histogram({{"a", "b"}}, histogram, 0.5);
  CHECK(out.take() ==
        "# HELP x_seconds Help.\n# TYPE x_seconds histogram\n"
        "x_seconds_bucket{a=\"b\",le=\"5\"} 2\n"
        "x_seconds_bucket{a=\"b\",le=\"10\"} 4\n"
        "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 5\n"
        "x_seconds_sum{a=\"b\"} 31\n"
        "x_seconds_count{a=\"b\"} 5\n");
}

TEST_CASE("what could end a label or a line is escaped") {
  Exposition out;
  out.family("x", "gauge", "two\nlines \\ \"quotes\"");
  out.sample({{"l", "a\"b\\c\nd"}}, 1.5);
  out.sample(2);
  CHECK(out.take() ==
        "# HELP x two\\nlines \\\\ \"quotes\"\n# TYPE x gauge\n"
        "x{l=\"a\\\"b\\\\c\\nd\"} 1.5\nx 2\n");
}
