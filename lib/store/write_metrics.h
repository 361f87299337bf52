#pragma once

#include "base/metrics.h"

namespace sandboxkit::store {

/// Where a store counts its writes; null: nowhere.
struct WriteMetrics {
  Histogram* seconds = nullptr;  ///< In microseconds.
  Histogram* group_sizes = nullptr;
};

}  // namespace sandboxkit::store
