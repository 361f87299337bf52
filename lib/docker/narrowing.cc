#include "docker/narrowing.h"

#include "docker/plan.h"
#include "io/fd.h"
#include "json/value.h"
#include "wire/messages.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::docker {
namespace {

constexpr mode_t kReadable = 0644;  // The proxy is another user.

std::string path_of(const std::string& folder) { return folder + "/" + egress::kNarrowedFile; }

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path);
  return file ? std::optional(std::string(std::istreambuf_iterator<char>(file), {})) : std::nullopt;
}

Error cannot_write(const char* what) {
  const Error error = io::error_from_errno(what, errno);
  return {ErrorCode::kUnavailable, error.message};
}

/// The policy that the sandbox was made with.
Result<EgressPolicy> read_sealed(const std::string& folder) {
  const auto text = text_of(folder + kPolicyFile);
  const auto value = text ? json::parse(*text) : Result<json::Value>(json::Value());
  json::Object policy;
  for (const char* name : {"allowed_domains", "allowed_networks", "strict_tls"}) {
    const json::Value* member = value ? value->find(name) : nullptr;
    if (member != nullptr) {
      policy.emplace_back(name, *member);
    }
  }
  auto egress = wire::egress_from_json(json::Value(std::move(policy)), "");
  if (!egress) {
    return Error{ErrorCode::kInternal, "the sealed policy of the sandbox cannot be read"};
  }
  return *egress->policy();
}

Status write_whole(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  io::Fd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kReadable));
  // The file is small: a write that is not whole is a disk that is full.
  if (!file || ::fchmod(file.get(), kReadable) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || std::rename(part.c_str(), path.c_str()) != 0) {
    return cannot_write("cannot write the narrowed policy");
  }
  const io::Fd folder(::open(std::filesystem::path(path).parent_path().c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder && ::fsync(folder.get()) == 0
             ? Status()
             : Status(cannot_write("the narrowed policy's folder"));
}

}  // namespace

Result<std::optional<egress::NarrowedPolicy>> read_narrowing(const std::string& folder) {
  const auto text = text_of(path_of(folder));
  if (!text) {
    return std::optional<egress::NarrowedPolicy>();
  }
  auto narrowed = egress::parse_narrowed(*text);
  if (!narrowed) {
    return Error{ErrorCode::kInternal, "the narrowed policy of the sandbox cannot be read"};
  }
  return std::optional(std::move(*narrowed));
}

Status write_narrowing(const std::string& folder, const egress::NarrowedPolicy& narrowed) {
  const auto before = read_narrowing(folder);
  if (!before) {
    return before.error();
  }
  auto in_force = *before ? Result<EgressPolicy>((*before)->policy) : read_sealed(folder);
  if (!in_force) {
    return in_force.error();
  }
  if (auto narrows = egress::check_narrows(narrowed.policy, *in_force); !narrows) {
    return narrows;
  }
  return write_whole(path_of(folder), egress::write_narrowed(narrowed));
}

void forget_narrowing(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove(path_of(folder), ignored);
}

}  // namespace sandboxkit::docker
