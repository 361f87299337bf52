#pragma once

#include "sandboxkit/result.h"

#include "docker/engine_client.h"

#include <map>
#include <string>

namespace sandboxkit::docker {

// How a sandbox comes to trust the authority of its lent secrets. Programs look in different
// places, so it stands in all of them before the first one runs.

/// Where update-ca-certificates would pick it up; `NODE_EXTRA_CA_CERTS` names it.
inline constexpr const char* kAuthorityInSandbox =
    "/usr/local/share/ca-certificates/sandboxkit-lent.crt";
/// The image's own roots and the authority, for programs that bring their roots along and are told
/// of a file by a variable. An image without roots gets the worker's.
inline constexpr const char* kBundleInSandbox = "/usr/local/share/sandboxkit/ca-bundle.pem";

/// The variables that name these files.
std::map<std::string, std::string> trust_environment();

/// Puts the authority into a container that was made and has not started: into the image's bundle,
/// into OpenSSL's folder, and into the two files above. `roots` stand in where the image has none.
/// Errors: as EngineClient::call; kTooLarge for a bundle of more than 4 MiB.
Status trust_authority(EngineClient& engine, const std::string& container,
                       const std::string& certificate, const std::string& roots);

}  // namespace sandboxkit::docker
