// Writes a gate's audit log for the tests of those who read it: a record for each line of standard
// input, `allow read /path`, and `done` or the error on standard output.
// Usage: write_log FOLDER [KEY_FILE]

#include "sandboxkit/clock.h"

#include "audit/writer.h"
#include "base/random.h"

#include <iostream>
#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

audit::Verdict verdict_of(const std::string& name) {
  return name == "allow"  ? audit::Verdict::kAllow
         : name == "deny" ? audit::Verdict::kDeny
                          : audit::Verdict::kAsk;
}

audit::Record record_of(const std::string& line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', first + 1);
  const std::string target = line.substr(second + 1);
  audit::Record record;
  record.session = "s1";
  record.decision = verdict_of(line.substr(0, first));
  record.branch = "work_tree";
  record.items.push_back({.operation = line.substr(first + 1, second - first - 1),
                          .requested = target,
                          .canonical = target});
  return record;
}

}  // namespace

int main(int argc, char** argv) {
  auto writer =
      audit::Writer::open({.folder = argc > 1 ? argv[1] : "", .key_file = argc > 2 ? argv[2] : ""},
                          {system_clock(), audit::system_ticks(), system_random()});
  if (!writer) {
    std::cerr << writer.error().message << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Status written = line == "flush" ? (*writer)->flush() : (*writer)->write(record_of(line));
    std::cout << (written ? "done" : written.error().reason) << std::endl;
  }
  return (*writer)->close() ? 0 : 1;
}
