#include "guest/paths.h"

#include "base/text.h"
#include "guest/bounds.h"

#include <algorithm>
#include <vector>

namespace sandboxkit::guest {
namespace {

Error bad_path(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "invalid_argument", "path"};
}

}  // namespace

Result<std::string> resolve_path(std::string_view path, const std::string& home) {
  if (path.find('\0') != std::string_view::npos) {
    return bad_path("path holds a NUL byte");
  }
  std::string whole;
  if (path.empty() || path == "~") {
    whole = home;
  } else if (path.starts_with("~/")) {
    whole = home + std::string(path.substr(1));
  } else if (path.starts_with('/')) {
    whole = path;
  } else {
    whole = home + "/" + std::string(path);
  }
  std::vector<std::string_view> kept;
  for (const std::string_view part : split(whole, '/')) {
    if (part.size() > kMaxNameBytes) {
      return bad_path("path has a name of more than 255 bytes");
    }
    if (part == "..") {
      if (!kept.empty()) {
        kept.pop_back();
      }
    } else if (!part.empty() && part != ".") {
      kept.push_back(part);
    }
  }
  std::string clean;
  for (const std::string_view part : kept) {
    clean.append("/").append(part);
  }
  if (clean.size() > kMaxPathBytes) {
    return bad_path("path is longer than 4095 bytes");
  }
  return clean.empty() ? std::string("/") : clean;
}

std::string parent_of(const std::string& absolute) {
  const auto slash = absolute.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : absolute.substr(0, slash);
}

std::string name_of_path(const std::string& absolute) {
  const auto slash = absolute.rfind('/');
  return slash == std::string::npos || absolute == "/" ? absolute : absolute.substr(slash + 1);
}

}  // namespace sandboxkit::guest
