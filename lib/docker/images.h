#pragma once

#include "sandboxkit/docker_driver.h"

#include "docker/engine_client.h"

#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::docker {

inline constexpr const char* kEgressRepository = "sandboxkit/egress";
inline constexpr std::size_t kMaxListedImages = 256;

/// Whether the text can be an image's name or id: what an engine takes, without `..`, so that it
/// cannot mean another route of the engine.
/// Errors: kInvalidArgument, field `image`. Pure.
Status check_image_name(std::string_view image);

/// Whether the engine has it.
Result<bool> has_image(EngineClient& engine, const std::string& image);
/// Names of the engine's images for people and placement, our own egress image left out.
Result<std::vector<std::string>> list_images(EngineClient& engine);

/// Makes an image from a tar of a root file system, streamed from the file.
Status import_tar(EngineClient& engine, const std::string& tar_path, const std::string& image,
                  const ProgressHandler& progress);

/// SHA-256 of a file, as hex.
Result<std::string> hash_file(const std::string& path);
/// `sandboxkit/egress:<first 12 hex digits>`.
std::string egress_image_name(std::string_view hash);
/// Makes the sidecar's image, which holds that one binary, unless the engine has it.
Status ensure_egress_image(EngineClient& engine, const std::string& binary,
                           const std::string& image);

/// The error in the progress lines that a long engine call answers with (the status says 200 by
/// then); empty when there is none. Pure.
std::string error_in_progress(std::string_view lines);

/// A tar archive with one executable file at that path.
Result<std::string> tar_of_executable(const std::string& file, const std::string& path);

}  // namespace sandboxkit::docker
