#pragma once

#include "sandboxkit/box_plan.h"

#include "box/broker.h"
#include "box/start.h"

#include <span>
#include <string>

#include <sys/types.h>

namespace sandboxkit::box {

/// What a broker is asked; see BrokerOrder.
struct GrantOrder {
  std::string path;
  BrokerAct act;
  BoxAccess access = BoxAccess::kReadOnly;
  FileType type = FileType::kDirectory;
  FileIdentity identity{};
};

/// Errors: kInvalidArgument with the field (`places[1].path`).
Status check_grants(std::span<const BoxPlace> places);

/// Errors: as Box::grant and Box::revoke.
Status ask_broker(const Started& started, const GrantOrder& order);

/// The first process of a box, whoever started it.
pid_t pid_of(const Started& started);

}  // namespace sandboxkit::box
