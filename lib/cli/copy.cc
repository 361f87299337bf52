// cp: files as streams; directories as a tar stream.

#include "cli/copy.h"

#include "sandboxkit/client.h"

#include "base/random.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kNameLength = 12;
constexpr mode_t kExecutable = 0111;
constexpr const char* kStandardStream = "-";

/// What the sandbox has under a path.
struct RemoteEntry {
  bool exists = false;
  bool is_directory = false;
  std::uint64_t size_bytes = 0;
  std::int64_t mode = 0;
};

std::string files_target(const Place& place) {
  return sandbox_target(place.sandbox, "/files?path=" + percent_encode(place.path));
}

Result<RemoteEntry> look(Api& api, const Place& place) {
  const auto answer = api.post(sandbox_target(place.sandbox, "/rpc/filesystem.Filesystem/Stat"),
                               json::Object{{"path", place.path}});
  if (!answer) {
    const bool absent =
        answer.error().code == ErrorCode::kNotFound && answer.error().reason != "sandbox_not_found";
    return absent ? Result<RemoteEntry>(RemoteEntry{}) : Result<RemoteEntry>(answer.error());
  }
  RemoteEntry found{.exists = true};
  if (const json::Value* entry = answer->find("entry")) {
    found.is_directory = entry->text("type") == "FILE_TYPE_DIRECTORY";
    found.size_bytes = parse_decimal(entry->text("size"), UINT64_MAX)
                           .value_or(static_cast<std::uint64_t>(entry->integer("size")));
    found.mode = entry->integer("mode");
  }
  return found;
}

/// Runs a short command in the sandbox; its output matters only when it fails.
Status run_quietly(Api& api, const std::string& sandbox, std::vector<std::string> argv) {
  std::string said;
  const auto keep = [&](std::string_view bytes) {
    said += said.size() < 2000 ? bytes : "";
    return true;
  };
  const auto exit = run_remote(api, sandbox, RemoteCommand{.argv = std::move(argv)}, {keep, keep});
  if (!exit) {
    return exit.error();
  }
  if (exit->code != 0) {
    return Error{ErrorCode::kInternal, "in the sandbox: " + std::string(trim(said))};
  }
  return {};
}

Status upload_stream(Api& api, const Place& to, int fd, std::int64_t size,
                     const std::string& label) {
  Progress progress(label, size > 0 ? static_cast<std::uint64_t>(size) : 0);
  const auto sent = api.send({.method = "PUT",
                              .target = files_target(to),
                              .timeout = std::chrono::milliseconds{0},
                              .read_body =
                                  [&](std::span<char> out) {
                                    auto got = read_some(fd, out);
                                    progress.add(got.value_or(std::size_t{0}));
                                    return got;
                                  },
                              .body_bytes = size});
  return sent ? Status() : Status(sent.error());
}

/// Into a directory when `to` is one: `cp file box:/tmp` is `/tmp/file`.
Result<Place> upload_place(Api& api, const std::string& from, Place to) {
  const std::string name = base_name(from);
  const bool wants_directory = to.path.ends_with('/') || to.path.empty();
  const auto there = look(api, Place{to.sandbox, to.path.empty() ? "." : to.path});
  if (!there) {
    return there.error();
  }
  if (wants_directory || there->is_directory) {
    if (name.empty()) {
      return usage_error("name the file that standard input becomes: SANDBOX:PATH");
    }
    to.path = join_path(to.path, name);
  }
  return to;
}

Status upload_file(Api& api, const std::string& from, const Place& to) {
  const bool from_stdin = from == kStandardStream;
  const Descriptor file(from_stdin ? -1 : open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from_stdin && !file) {
    return file_error("cannot open", from, errno);
  }
  const auto target = upload_place(api, from_stdin ? "" : from, to);
  if (!target) {
    return target.error();
  }
  struct stat about {};
  const int fd = from_stdin ? kStandardInput : file.get();
  const bool sized = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && !from_stdin;
  if (auto sent = upload_stream(api, *target, fd, sized ? about.st_size : -1, base_name(from));
      !sent) {
    return sent;
  }
  if (sized && (about.st_mode & kExecutable) != 0) {
    return run_quietly(api, target->sandbox, {"chmod", "+x", "--", target->path});
  }
  return {};
}

/// tar here, a file there, tar there: modes, links and empty directories come along.
Status upload_directory(Api& api, const std::string& from, const Place& to) {
  auto target = upload_place(api, std::filesystem::absolute(from).lexically_normal().string(), to);
  if (!target) {
    return target.error();
  }
  const Place archive{to.sandbox,
                      "/tmp/.sandboxkit-" + system_random().text(kNameLength, kBase36) + ".tar"};
  auto tar = Child::start({"tar", "-C", from, "-cf", "-", "."}, Child::Pipe::kFromOutput);
  if (!tar) {
    return tar.error();
  }
  const Status sent = upload_stream(api, archive, tar->fd(), -1, base_name(from));
  const Status packed = tar->finish();
  if (!sent || !packed) {
    static_cast<void>(api.remove(files_target(archive)));
    return sent ? packed : sent;
  }
  const Status unpacked = run_quietly(
      api, to.sandbox,
      {"sh", "-c",
       R"(mkdir -p -- "$1" && tar -C "$1" -xf "$2"; code=$?; rm -f -- "$2"; exit $code)", "sh",
       target->path, archive.path});
  if (!unpacked) {
    static_cast<void>(api.remove(files_target(archive)));
  }
  return unpacked;
}

/// Into `to` when that is a directory here.
std::string download_path(const Place& from, const std::string& to) {
  std::error_code ignored;
  const bool is_directory = to.ends_with('/') || std::filesystem::is_directory(to, ignored);
  return is_directory ? join_path(to, base_name(from.path)) : to;
}

Status download_stream(Api& api, const Place& from, int fd, std::uint64_t size) {
  Progress progress(fd == kStandardOutput ? "" : base_name(from.path), size);
  const auto got = api.send({.target = files_target(from),
                             .timeout = std::chrono::milliseconds{0},
                             .on_body = [&](std::span<const char> bytes) {
                               progress.add(bytes.size());
                               return write_all(fd, {bytes.data(), bytes.size()});
                             }});
  return got ? Status() : Status(got.error());
}

Status download_file(Api& api, const Place& from, const std::string& to, const RemoteEntry& entry,
                     Interrupts& interrupts) {
  const std::string part = to + ".sandboxkit-part";
  Descriptor file(open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file && errno == EEXIST) {
    return Error{ErrorCode::kConflict,
                 sandboxkit::quoted(part) +
                     " is in the way: another copy runs, or one was killed; remove it"};
  }
  if (!file) {
    return file_error("cannot write", to, errno);
  }
  interrupts.on_end([part] { unlink(part.c_str()); });
  const Status got = download_stream(api, from, file.get(), entry.size_bytes);
  interrupts.hold_while_ending();
  if (got && (entry.mode & kExecutable) != 0) {
    struct stat about {};
    fstat(file.get(), &about);
    // Who may read it may run it, as the umask left it.
    fchmod(file.get(), about.st_mode | ((about.st_mode & 0444) >> 2));
  }
  file.reset();
  if (!got || std::rename(part.c_str(), to.c_str()) != 0) {
    const int problem = errno;
    unlink(part.c_str());
    return got ? Status(file_error("cannot write", to, problem)) : got;
  }
  interrupts.on_end({});
  return {};
}

/// The other side's tar is a stranger: no owners, no modes beyond the umask; GNU tar itself refuses
/// names and links that lead out of the directory.
Status download_directory(Api& api, const Place& from, const std::string& to) {
  std::error_code problem;
  std::filesystem::create_directories(to, problem);
  if (problem) {
    return Error{ErrorCode::kInternal,
                 "cannot make " + sandboxkit::quoted(to) + ": " + problem.message()};
  }
  auto tar = Child::start({"tar", "-C", to, "--no-same-owner", "--no-same-permissions", "-xf", "-"},
                          Child::Pipe::kToInput);
  if (!tar) {
    return tar.error();
  }
  std::string said;
  Progress progress(base_name(from.path), 0);
  const auto exit = run_remote(api, from.sandbox,
                               RemoteCommand{.argv = {"tar", "-C", from.path, "-cf", "-", "."}},
                               {[&](std::string_view bytes) {
                                  progress.add(bytes.size());
                                  return write_all(tar->fd(), bytes);
                                },
                                [&](std::string_view bytes) {
                                  said += bytes;
                                  return said.size() < 100'000;
                                }});
  const Status unpacked = tar->finish();
  if (!exit) {
    return exit.error().code == ErrorCode::kCancelled ? unpacked : Status(exit.error());
  }
  if (exit->code != 0) {
    return Error{ErrorCode::kInternal, "in the sandbox: " + std::string(trim(said))};
  }
  return unpacked;
}

Status upload(Api& api, const std::string& from, const Place& to) {
  std::error_code ignored;
  return from != kStandardStream && std::filesystem::is_directory(from, ignored)
             ? upload_directory(api, from, to)
             : upload_file(api, from, to);
}

Status download(Api& api, const Place& from, const std::string& to, Interrupts& interrupts) {
  const auto entry = look(api, from);
  if (!entry) {
    return entry.error();
  }
  if (!entry->exists) {
    return Error{ErrorCode::kNotFound,
                 "there is no " + sandboxkit::quoted(from.path) + " in the sandbox",
                 "file_not_found"};
  }
  if (to == kStandardStream) {
    return entry->is_directory ? Status(usage_error("a directory cannot go to standard output"))
                               : download_stream(api, from, kStandardOutput, entry->size_bytes);
  }
  const std::string target = download_path(from, to);
  return entry->is_directory ? download_directory(api, from, target)
                             : download_file(api, from, target, *entry, interrupts);
}

}  // namespace

Place parse_place(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || text.find('/') < colon) {
    return Place{{}, text};
  }
  return Place{text.substr(0, colon), text.substr(colon + 1)};
}

std::string base_name(const std::string& path) {
  std::string_view rest = path;
  while (rest.size() > 1 && rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  const std::string name(rest.substr(rest.rfind('/') + 1));
  return name == "." || name == ".." || name == "/" ? std::string() : name;
}

std::string join_path(const std::string& directory, const std::string& name) {
  if (directory.empty()) {
    return name;
  }
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

int copy_files(const Common& common, const std::string& from, const std::string& to) {
  const Place source = parse_place(from);
  const Place target = parse_place(to);
  if (source.sandbox.empty() == target.sandbox.empty()) {
    return fail(usage_error(
        "exactly one side must be SANDBOX:PATH (write ./ before a local name that holds a colon)"));
  }
  if (!source.sandbox.empty() && source.path.empty()) {
    return fail(usage_error("name the path to copy: SANDBOX:PATH"));
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  Interrupts interrupts;
  const Status done = source.sandbox.empty() ? upload(**api, source.path, target)
                                             : download(**api, source, target.path, interrupts);
  if (!done && done.error().code == ErrorCode::kCancelled) {
    return kExitBrokenPipe;
  }
  return done ? kExitOk : fail(done.error());
}

}  // namespace sandboxkit::cli
