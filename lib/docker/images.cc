#include "docker/images.h"

#include "base/percent.h"
#include "base/text.h"
#include "docker/plan.h"
#include "docker/tar.h"
#include "io/fd.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::docker {
namespace {

constexpr std::size_t kMaxHelperBytes = 256 << 20;
constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kTagDigits = 12;
constexpr unsigned kHelperMode = 0755;

/// Reads a file from its start to its end.
class FileReader {
 public:
  static Result<FileReader> open(const std::string& path) {
    io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!file || fstat(file.get(), &info) != 0) {
      return io::error_from_errno(("cannot read " + quoted(path)).c_str(), errno);
    }
    if (!S_ISREG(info.st_mode)) {
      return Error{ErrorCode::kInvalidArgument, quoted(path) + " is no file"};
    }
    return FileReader(std::move(file), static_cast<std::uint64_t>(info.st_size));
  }

  std::uint64_t size() const { return size_; }
  std::uint64_t done() const { return done_; }

  /// Fills the buffer; 0 at the end.
  Result<std::size_t> read(std::span<char> buffer) {
    const ssize_t count = ::read(file_.get(), buffer.data(), buffer.size());
    if (count < 0) {
      return io::error_from_errno("cannot read the file", errno);
    }
    done_ += static_cast<std::uint64_t>(count);
    return static_cast<std::size_t>(count);
  }

 private:
  FileReader(io::Fd file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  io::Fd file_;
  std::uint64_t size_;
  std::uint64_t done_ = 0;
};

/// `repo=...&tag=...` of an image's name.
std::string repo_and_tag(const std::string& image) {
  const std::size_t slash = image.rfind('/');
  const std::size_t colon = image.rfind(':');
  const bool tagged = colon != std::string::npos && (slash == std::string::npos || colon > slash);
  const std::string repo = tagged ? image.substr(0, colon) : image;
  const std::string tag = tagged ? image.substr(colon + 1) : "latest";
  return "repo=" + percent_encoded(repo) + "&tag=" + percent_encoded(tag);
}

Status import_stream(EngineClient& engine, const std::string& image,
                     std::function<Result<std::size_t>(std::span<char>)> upload) {
  const EngineCall call{.method = "POST",
                        .target = "/images/create?fromSrc=-&" + repo_and_tag(image),
                        .upload = std::move(upload)};
  const auto reply = engine.send(call);
  if (!reply) {
    return reply.error();
  }
  std::string problem = error_in_progress(reply->body);
  ErrorCode code = ErrorCode::kInvalidArgument;
  if (problem.empty() && reply->status != 200) {
    const Error refused = error_of_reply(call, *reply);
    code = refused.code;
    problem = refused.message;
  }
  if (!problem.empty()) {
    return Error{code, "the engine could not import " + quoted(image) + ": " + problem};
  }
  return {};
}

}  // namespace

Status check_image_name(std::string_view image) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '/' || c == ':' || c == '@';
  };
  if (image.empty() || image.size() > SandboxSpec::kMaxImageBytes || image.front() == '/' ||
      image.find("..") != std::string_view::npos || image.find("//") != std::string_view::npos ||
      !std::all_of(image.begin(), image.end(), is_fine)) {
    return Error{ErrorCode::kInvalidArgument,
                 quoted(image) + " is no image name such as `repository:tag`", "", "image"};
  }
  return {};
}

Result<bool> has_image(EngineClient& engine, const std::string& image) {
  if (Status named = check_image_name(image); !named) {
    return named.error();
  }
  const EngineCall call{.target = "/images/" + image + "/json"};
  const auto reply = engine.send(call);
  if (!reply) {
    return reply.error();
  }
  if (reply->status == 200 || reply->status == 404) {
    return reply->status == 200;
  }
  return error_of_reply(call, *reply);
}

Result<std::vector<std::string>> list_images(EngineClient& engine) {
  const auto answer = engine.get("/images/json");
  if (!answer) {
    return answer.error();
  }
  std::vector<std::string> names;
  const json::Array* images = answer->as_array();
  for (std::size_t i = 0; images != nullptr && i < images->size(); ++i) {
    const json::Value* tags = (*images)[i].find("RepoTags");
    const json::Array* list = tags != nullptr ? tags->as_array() : nullptr;
    for (std::size_t j = 0; list != nullptr && j < list->size(); ++j) {
      const std::string* name = (*list)[j].as_string();
      if (name != nullptr && *name != "<none>:<none>" &&
          !name->starts_with(std::string(kEgressRepository) + ":")) {
        names.push_back(*name);
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.resize(std::min(names.size(), kMaxListedImages));
  return names;
}

Status import_tar(EngineClient& engine, const std::string& tar_path, const std::string& image,
                  const ProgressHandler& progress) {
  if (Status named = check_image_name(image); !named) {
    return named;
  }
  auto opened = FileReader::open(tar_path);
  if (!opened) {
    return opened.error();
  }
  FileReader& file = *opened;
  const auto tell = [&](const char* step, double fraction) {
    if (progress) {
      progress(step, fraction);
    }
  };
  Status done = import_stream(engine, image, [&](std::span<char> buffer) {
    auto count = file.read(buffer);
    if (count) {
      const bool at_end = *count == 0 || file.size() == 0;
      tell(at_end ? "unpack" : "send",
           at_end ? -1 : static_cast<double>(file.done()) / static_cast<double>(file.size()));
    }
    return count;
  });
  if (done) {
    tell("done", 1);
  }
  return done;
}

Result<std::string> hash_file(const std::string& path) {
  auto file = FileReader::open(path);
  if (!file) {
    return file.error();
  }
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const auto count = file->read(buffer);
    if (!count) {
      return count.error();
    }
    if (*count == 0) {
      break;
    }
    EVP_DigestUpdate(context.get(), buffer.data(), *count);
  }
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  return to_hex(std::span(digest).first(length));
}

std::string egress_image_name(std::string_view hash) {
  return std::string(kEgressRepository) + ":" + std::string(hash.substr(0, kTagDigits));
}

Status ensure_egress_image(EngineClient& engine, const std::string& binary,
                           const std::string& image) {
  const auto there = has_image(engine, image);
  if (!there) {
    return there.error();
  }
  if (*there) {
    return {};
  }
  auto tar = tar_of_executable(binary, std::string(kEgressInImage).substr(1));
  if (!tar) {
    return tar.error();
  }
  std::size_t sent = 0;
  return import_stream(engine, image, [&](std::span<char> buffer) -> Result<std::size_t> {
    const std::size_t count = tar->copy(buffer.data(), buffer.size(), sent);
    sent += count;
    return count;
  });
}

std::string error_in_progress(std::string_view lines) {
  for (const std::string_view line : split(lines, '\n')) {
    if (trim(line).empty()) {
      continue;
    }
    const auto value = json::parse(trim(line));
    if (value && !value->text("error").empty()) {
      return value->text("error");
    }
  }
  return {};
}

Result<std::string> tar_of_executable(const std::string& file, const std::string& path) {
  auto reader = FileReader::open(file);
  if (!reader) {
    return reader.error();
  }
  if (reader->size() > kMaxHelperBytes) {
    return Error{ErrorCode::kTooLarge, quoted(file) + " is too large for a helper"};
  }
  std::string bytes(reader->size(), '\0');
  for (std::size_t filled = 0; filled < bytes.size();) {
    const auto count = reader->read(std::span(bytes).subspan(filled));
    if (!count || *count == 0) {
      return count ? Error{ErrorCode::kUnavailable, quoted(file) + " changed while it was read"}
                   : count.error();
    }
    filled += *count;
  }
  return pack_tar(std::array{TarFile{path, std::move(bytes), kHelperMode}});
}

}  // namespace sandboxkit::docker
