#include "audit/read.h"

#include "audit/files.h"
#include "audit/folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>

#include <sys/inotify.h>
#include <unistd.h>

namespace sandboxkit::audit {
namespace {

constexpr std::size_t kEventBytes = 16 * 1024;

bool is_older(const FoundLine& a, const FoundLine& b) {
  return std::tie(a.line.stamp.time, a.chain, a.line.stamp.seq) <
         std::tie(b.line.stamp.time, b.chain, b.line.stamp.seq);
}

bool is_younger(const FoundLine& a, const FoundLine& b) { return is_older(b, a); }

}  // namespace

bool Wanted::takes(const ParsedLine& line) const {
  return (session.empty() || line.value.text("session") == session) &&
         (kind.empty() || line.kind == kind) &&
         (decision.empty() || line.value.text("decision") == decision);
}

Result<Reader> Reader::open(const std::string& path) {
  auto folder = open_folder_to_read(path);
  if (!folder) {
    return folder.error();
  }
  // Watched from the beginning: nothing that comes between a read and a wait is missed.
  io::Fd changes(::inotify_init1(IN_CLOEXEC));
  const std::string self = "/proc/self/fd/" + std::to_string(folder->get());
  if (!changes || ::inotify_add_watch(changes.get(), self.c_str(), IN_MODIFY | IN_CREATE) < 0) {
    return io::error_from_errno("the audit folder cannot be watched", errno);
  }
  return Reader(std::move(*folder), std::move(changes));
}

Status Reader::read_new(const std::function<void(FoundLine)>& take) {
  const auto chains = list_chains(folder_.get());
  if (!chains) {
    return chains.error();
  }
  std::map<std::string, Place> kept;
  for (const auto& [chain, files] : *chains) {
    for (const std::uint64_t number : files.segments) {
      const std::string file = segment_file(chain, number);
      auto read = read_file(chain, file, take);
      // Retired since it was listed.
      if (!read && read.error().code != ErrorCode::kNotFound) {
        return read;
      }
      kept[file] = std::move(places_[file]);
    }
  }
  places_ = std::move(kept);
  return {};
}

Status Reader::read_file(const std::string& chain, const std::string& file,
                         const std::function<void(FoundLine)>& take) {
  Place& place = places_[file];
  const auto take_line = [&] {
    auto line = parse_line(place.partial);
    place.partial.clear();
    if (line) {
      take({chain, std::move(*line)});
    } else {
      ++unreadable_;
    }
  };
  return read_pieces(folder_.get(), file, place.offset, [&](std::string_view piece) {
    place.offset += piece.size();
    while (!piece.empty()) {
      const std::size_t end = std::min(piece.find('\n'), piece.size());
      // What is too long is no line of ours: it is kept short, and does not parse.
      place.partial += piece.substr(
          0, std::min(end, kMaxLineBytes - std::min(kMaxLineBytes, place.partial.size())));
      if (end == piece.size()) {
        break;
      }
      take_line();
      piece.remove_prefix(end + 1);
    }
    return true;
  });
}

Result<std::vector<FoundLine>> Reader::newest(const Wanted& wanted, std::size_t limit) {
  // A heap with the oldest on top, which goes when there is one too many.
  std::vector<FoundLine> lines;
  const Status read = read_new([&](FoundLine line) {
    if (limit == 0 || !wanted.takes(line.line)) {
      return;
    }
    lines.push_back(std::move(line));
    std::ranges::push_heap(lines, is_younger);
    if (lines.size() > limit) {
      std::ranges::pop_heap(lines, is_younger);
      lines.pop_back();
    }
  });
  if (!read) {
    return read.error();
  }
  std::ranges::sort(lines, is_older);
  return lines;
}

Status Reader::wait() {
  std::array<char, kEventBytes> events{};
  if (::read(changes_.get(), events.data(), events.size()) < 0 && errno != EINTR) {
    return io::error_from_errno("the audit folder cannot be watched", errno);
  }
  return {};
}

}  // namespace sandboxkit::audit
