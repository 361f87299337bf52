#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sandboxkit::docker {

/// A file of a tar archive that goes to the engine. It belongs to root.
struct TarFile {
  std::string path;
  std::string bytes;
  unsigned mode = 0644;
};
/// Files alone: folders that stand keep their owner and mode, missing ones are made by the engine.
/// Errors: kInternal.
Result<std::string> pack_tar(std::span<const TarFile> files);

/// The first entry of an archive that comes from the engine, which reads an image's files.
struct TarEntry {
  std::string bytes{};  ///< Of a regular file.
  std::string link{};   ///< Where a symbolic link points to; else empty.
};
/// Errors: kInvalidArgument when it is neither a file nor a link; kTooLarge.
Result<TarEntry> first_of_tar(std::string_view tar, std::size_t max_bytes);

}  // namespace sandboxkit::docker
