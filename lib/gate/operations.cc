#include "gate/operations.h"

namespace sandboxkit::gate {

std::set<GateOperation> every_operation() {
  std::set<GateOperation> all;
  for (int i = 0; i < static_cast<int>(GateOperation::kUnknown); ++i) {
    all.insert(static_cast<GateOperation>(i));
  }
  return all;
}

std::set<GateOperation> changing_operations() {
  using enum GateOperation;
  return {kWrite, kCreate, kDelete, kMeta, kRename, kLink, kSymlink, kMount};
}

bool takes_path(GateOperation operation) {
  using enum GateOperation;
  switch (operation) {
    case kRead:
    case kList:
    case kStat:
    case kWrite:
    case kCreate:
    case kDelete:
    case kMeta:
    case kRename:
    case kLink:
    case kSymlink:
    case kExec:
    case kUnix:
      return true;
    case kMount:
    case kDevice:
    case kEnv:
    case kConnect:
    case kListen:
    case kSignal:
    case kPtrace:
    case kUnknown:
      return false;
  }
  return false;
}

bool only_reads(GateOperation operation) {
  return operation == GateOperation::kRead || operation == GateOperation::kList ||
         operation == GateOperation::kStat;
}

bool keeps_last_link(GateOperation operation) {
  using enum GateOperation;
  return operation == kDelete || operation == kRename || operation == kLink ||
         operation == kSymlink;
}

}  // namespace sandboxkit::gate
