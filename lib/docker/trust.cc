#include "docker/trust.h"

#include "base/percent.h"
#include "docker/tar.h"
#include "egress/authority.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace sandboxkit::docker {
namespace {

constexpr std::size_t kMaxBundleBytes = 4 << 20;
constexpr int kMaxLinks = 4;
constexpr const char* kOpensslFolder = "/etc/ssl/certs/";
/// Debian and Alpine; Fedora and its kin; OpenSSL's and LibreSSL's own default.
constexpr std::array kBundles{"/etc/ssl/certs/ca-certificates.crt",
                              "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};

struct Bundle {
  std::string path;
  std::string bytes;
};

/// The file at `path` in the container, links followed as the container would; none when there is
/// no such file.
Result<std::optional<Bundle>> read_bundle(EngineClient& engine, const std::string& container,
                                          std::string path) {
  for (int links = 0; links <= kMaxLinks; ++links) {
    const EngineCall call{.target = "/containers/" + container +
                                    "/archive?path=" + percent_encoded(path)};
    const auto reply = engine.send(call);
    if (!reply) {
      return reply.error();
    }
    if (reply->status == 404) {
      break;
    }
    if (reply->status != 200) {
      return error_of_reply(call, *reply);
    }
    auto entry = first_of_tar(reply->body, kMaxBundleBytes);
    if (!entry && entry.error().code == ErrorCode::kTooLarge) {
      return entry.error();
    }
    if (!entry) {
      break;
    }
    if (entry->link.empty()) {
      return std::optional(Bundle{std::move(path), std::move(entry->bytes)});
    }
    const auto folder = std::filesystem::path(path).parent_path();
    path = (folder / entry->link).lexically_normal().string();
  }
  return std::optional<Bundle>();
}

Result<std::optional<Bundle>> find_bundle(EngineClient& engine, const std::string& container) {
  for (const char* path : kBundles) {
    auto found = read_bundle(engine, container, path);
    if (!found || *found) {
      return found;
    }
  }
  return std::optional<Bundle>();
}

std::string joined(const std::string& bundle, const std::string& certificate) {
  return bundle + (bundle.empty() || bundle.ends_with('\n') ? "" : "\n") + certificate;
}

}  // namespace

std::map<std::string, std::string> trust_environment() {
  return {
      {"NODE_EXTRA_CA_CERTS", kAuthorityInSandbox},
      {"REQUESTS_CA_BUNDLE", kBundleInSandbox},
      {"PIP_CERT", kBundleInSandbox},
      {"CURL_CA_BUNDLE", kBundleInSandbox},
      {"GIT_SSL_CAINFO", kBundleInSandbox},
  };
}

Status trust_authority(EngineClient& engine, const std::string& container,
                       const std::string& certificate, const std::string& roots) {
  const auto name = egress::folder_name_of(certificate);
  if (!name) {
    return name.error();
  }
  auto bundle = find_bundle(engine, container);
  if (!bundle) {
    return bundle.error();
  }
  std::vector<TarFile> files{
      {kAuthorityInSandbox, certificate},
      {kOpensslFolder + *name, certificate},
      {kBundleInSandbox, joined(*bundle ? (*bundle)->bytes : roots, certificate)},
  };
  if (*bundle) {
    files.push_back({(*bundle)->path, joined((*bundle)->bytes, certificate)});
  }
  for (TarFile& file : files) {
    file.path.erase(0, file.path.find_first_not_of('/'));
  }
  const auto tar = pack_tar(files);
  if (!tar) {
    return tar.error();
  }
  std::size_t sent = 0;
  const EngineCall call{.method = "PUT",
                        .target = "/containers/" + container + "/archive?path=%2F",
                        .upload = [&](std::span<char> buffer) -> Result<std::size_t> {
                          const std::size_t count = std::min(buffer.size(), tar->size() - sent);
                          std::memcpy(buffer.data(), tar->data() + sent, count);
                          sent += count;
                          return count;
                        }};
  const auto answer = engine.call(call);
  return answer ? Status() : Status(answer.error());
}

}  // namespace sandboxkit::docker
