#pragma once

#include "sandboxkit/placement.h"
#include "sandboxkit/result.h"

#include "json/value.h"
#include "net/api_server.h"
#include "store/store.h"

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace sandboxkit::control {

/// Every refusal that the API knows, with its status: one table for all surfaces.
struct RefusalName {
  const char* name;
  int status;
};
std::span<const RefusalName> refusal_names();

/// The answer for a refusal of the table. `extra` is added to the body (`limit`, `used`, ...).
/// A name outside of the table is a defect.
net::ApiResponse refuse(std::string_view name, const std::string& message,
                        const json::Object& extra = {}, std::string_view field = {});

/// The answer for an error: by its reason where the table knows it, else by its code.
net::ApiResponse refuse(const Error& error);

/// The scheduler's refusal with counts and `Retry-After`.
net::ApiResponse refuse(const PlacementRequest& request, const Refusal& refusal);

/// Why a sandbox that ended, failed or never started cannot be used: from its tombstone, which
/// reads `name: message` for a failed create.
net::ApiResponse refuse_ended(const store::SandboxRow& row);

Error sandbox_not_found();
Error worker_not_found();

}  // namespace sandboxkit::control
