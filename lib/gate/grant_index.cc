#include "gate/grant_index.h"

#include "gate/access.h"
#include "gate/grants.h"

#include <string>

namespace sandboxkit::gate {
namespace {

constexpr std::uint64_t kNoWords = 1;

/// Of the words behind the program, which is compared as a file.
std::uint64_t hash_of_words(std::span<const std::string> words) {
  std::uint64_t hash = kNoWords;
  for (const std::string& word : words) {
    hash = hash_on(hash, word);
  }
  return hash;
}

}  // namespace

GrantIndex::GrantIndex(std::span<const Grant> grants) {
  for (std::uint32_t number = 0; number < grants.size(); ++number) {
    const Grant& grant = grants[number];
    if (grant.pattern) {
      paths_.add(*grant.pattern, number);
    }
    if (!grant.use.argv.empty()) {
      NumberTable& table = grant.use.argv_is_prefix ? command_fronts_ : commands_;
      table.add(hash_of_words(std::span(grant.use.argv).subspan(1)), number);
    }
    targets_.add(hash_on(0, grant.use.target), number);
  }
}

void GrantIndex::find_words(const Access& access, Numbers& found) const {
  if (access.words.empty()) {
    return;
  }
  const auto behind = std::span(access.words).subspan(1);
  commands_.find(hash_of_words(behind), found);
  if (command_fronts_.empty()) {
    return;
  }
  std::uint64_t front = kNoWords;
  command_fronts_.find(front, found);
  for (const std::string& word : behind) {
    front = hash_on(front, word);
    command_fronts_.find(front, found);
  }
}

Numbers GrantIndex::find(const Access& access) const {
  Numbers found;
  if (access.operation == GateOperation::kExec) {
    find_words(access, found);
  } else if (takes_path(access.operation)) {
    paths_.find(access.canonical, found);
  } else {
    targets_.find(hash_on(0, access.requested), found);
  }
  put_in_order(found);
  return found;
}

}  // namespace sandboxkit::gate
