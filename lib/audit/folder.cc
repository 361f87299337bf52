#include "audit/folder.h"

#include "audit/files.h"
#include "base/text.h"
#include "io/fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit::audit {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

void add_file(std::string_view name, std::map<std::string, ChainFiles>& chains) {
  if (auto segment = segment_name_from(name)) {
    chains[segment->chain].segments.push_back(segment->number);
  } else if (auto chain = chain_of_head_file(name)) {
    chains[*chain].has_head = true;
  }
}

Result<ChainCheck> walk_chain(int folder, const std::string& name, const ChainFiles& files,
                              Result<Head> head) {
  ChainWalk walk(name, head ? std::optional(*head) : std::nullopt);
  for (const std::uint64_t number : files.segments) {
    walk.begin_segment(number);
    const Status read =
        read_pieces(folder, segment_file(name, number), 0, [&](std::string_view piece) {
          walk.take(piece);
          return true;
        });
    // Gone since it was listed: the walk misses it, and the folder is looked at once more.
    if (!read && read.error().code != ErrorCode::kNotFound) {
      return read.error();
    }
  }
  ChainCheck check = walk.finish();
  if (!head && files.has_head) {
    check.problem = head.error().message;
  }
  return check;
}

Result<FolderCheck> walk_folder(int folder, const Key* key) {
  auto before = list_chains(folder);
  if (!before) {
    return before.error();
  }
  // Heads first: what is written meanwhile lies behind them, and not in front.
  std::map<std::string, Result<Head>> heads;
  for (const auto& [name, files] : *before) {
    const auto text = read_small_file({folder, head_file(name)}, kMaxHeadBytes);
    heads.emplace(name, text ? parse_head(*text, key) : Result<Head>(text.error()));
  }
  auto chains = list_chains(folder);
  if (!chains) {
    return chains.error();
  }
  std::vector<ChainCheck> checks;
  for (const auto& [name, files] : *chains) {
    const auto head = heads.find(name);
    if (head == heads.end()) {
      continue;  // Begun this moment.
    }
    auto check = walk_chain(folder, name, files, head->second);
    if (!check) {
      return check.error();
    }
    checks.push_back(std::move(*check));
  }
  return judge_folder(checks, key != nullptr);
}

}  // namespace

Result<std::map<std::string, ChainFiles>> list_chains(int folder) {
  // A descriptor of its own: the position in a folder is shared with duplicates.
  io::Fd own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseFolder> open(own ? ::fdopendir(own.get()) : nullptr);
  if (!open) {
    return io::error_from_errno("the audit folder", errno);
  }
  static_cast<void>(own.release());
  std::map<std::string, ChainFiles> chains;
  std::size_t count = 0;
  for (const dirent* entry = ::readdir(open.get());
       entry != nullptr;                 // NOLINT(concurrency-mt-unsafe)
       entry = ::readdir(open.get())) {  // NOLINT(concurrency-mt-unsafe)
    if (++count > kMaxFiles) {
      return Error{ErrorCode::kTooLarge,
                   "the audit folder has more than " + std::to_string(kMaxFiles) + " files"};
    }
    add_file(static_cast<const char*>(entry->d_name), chains);
  }
  for (auto& [name, files] : chains) {
    std::ranges::sort(files.segments);
  }
  return chains;
}

Status read_pieces(int folder, const std::string& file, std::uint64_t offset,
                   const std::function<bool(std::string_view)>& take) {
  const auto open = open_to_read({folder, file});
  if (!open) {
    return open.error();
  }
  std::string piece(kPieceBytes, '\0');
  while (true) {
    const ssize_t got =
        ::pread(open->get(), piece.data(), piece.size(), static_cast<off_t>(offset));
    if (got < 0 && errno != EINTR) {
      return io::error_from_errno(("audit file " + quoted(file)).c_str(), errno);
    }
    if (got == 0 ||
        (got > 0 && !take(std::string_view(piece).substr(0, static_cast<std::size_t>(got))))) {
      return {};
    }
    offset += got > 0 ? static_cast<std::uint64_t>(got) : 0;
  }
}

Result<FolderCheck> verify_folder(const std::string& path, const Key* key) {
  const auto folder = open_folder_to_read(path);
  if (!folder) {
    return folder.error();
  }
  auto check = walk_folder(folder->get(), key);
  if (check && !check->intact()) {
    check = walk_folder(folder->get(), key);
  }
  if (check && check->chains == 0) {
    return Error{ErrorCode::kInvalidArgument, "no audit log lies in " + quoted(path), {}, "dir"};
  }
  return check;
}

}  // namespace sandboxkit::audit
