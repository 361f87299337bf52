#include "guest/filesystem_rpc.h"

#include "guest/bounds.h"
#include "guest/connect_stream.h"
#include "guest/entry_info.h"
#include "guest/file_writer.h"
#include "guest/paths.h"
#include "guest/reply.h"
#include "guest/rpc_message.h"
#include "guest/small_file.h"
#include "guest/tree.h"

#include <cerrno>
#include <cstdio>

#include <sys/stat.h>

namespace sandboxkit::guest {
namespace {

/// A call's settings and user, with the paths of its message resolved for that user.
struct Call {
  Settings& settings;
  const User& user;
  RpcMessage& message;

  Result<std::string> path(std::string_view name) {
    const std::string text = message.text(name);
    if (const Status read = message.status(); !read) {
      return read.error();
    }
    return resolve_path(text, settings.workdir_of(user));
  }

  RpcResult entry(const std::string& at) {
    auto info = entry_info(at, settings.accounts());
    return info ? RpcResult(json::Object{{"entry", std::move(*info)}}) : RpcResult(info.error());
  }
};

RpcResult stat_entry(Call& call) {
  const auto path = call.path("path");
  return path ? call.entry(*path) : RpcResult(path.error());
}

RpcResult make_dir(Call& call) {
  const auto path = call.path("path");
  if (!path) {
    return path.error();
  }
  struct stat status {};
  if (::stat(path->c_str(), &status) == 0) {
    return S_ISDIR(status.st_mode)
               ? Error{ErrorCode::kConflict, "directory '" + *path + "' exists already"}
               : Error{ErrorCode::kInvalidArgument, "path '" + *path + "' is not a directory"};
  }
  if (const Status made = make_folders(*path, call.user, call.settings.is_root()); !made) {
    return made.error();
  }
  return call.entry(*path);
}

RpcResult move_entry(Call& call) {
  const auto source = call.path("source");
  const auto destination = call.path("destination");
  if (!source || !destination) {
    return source ? destination.error() : source.error();
  }
  struct stat status {};
  if (::lstat(source->c_str(), &status) != 0) {
    return file_error(errno, *source);
  }
  if (const Status made = make_folders(parent_of(*destination), call.user, call.settings.is_root());
      !made) {
    return made.error();
  }
  if (::rename(source->c_str(), destination->c_str()) != 0) {
    if (errno == EXDEV) {
      return Error{ErrorCode::kInvalidArgument,
                   "'" + *source + "' and '" + *destination +
                       "' are on different file systems: copy instead"};
    }
    return file_error(errno, *destination);
  }
  return call.entry(*destination);
}

RpcResult list_dir(Call& call) {
  const auto path = call.path("path");
  const std::int64_t depth = call.message.integer("depth").value_or(0);
  if (const Status read = call.message.status(); !read || !path) {
    return path ? read.error() : path.error();
  }
  if (depth < 0 || depth > kMaxListDepth) {
    return Error{ErrorCode::kInvalidArgument, "depth must be from 1 to 32"};
  }
  auto entries =
      list_entries(*path, depth == 0 ? 1 : static_cast<int>(depth), call.settings.accounts());
  return entries ? RpcResult(json::Object{{"entries", std::move(*entries)}})
                 : RpcResult(entries.error());
}

RpcResult remove_entry(Call& call) {
  const auto path = call.path("path");
  if (!path) {
    return path.error();
  }
  const Status removed = remove_path(*path, /*recursive=*/true);
  // Removing what is not there succeeds, as in envd.
  if (!removed && removed.error().code != ErrorCode::kNotFound) {
    return removed.error();
  }
  return json::Value(json::Object{});
}

using Method = RpcResult (*)(Call&);

Method method_named(std::string_view name) {
  constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"Stat", stat_entry},  {"MakeDir", make_dir},    {"Move", move_entry},
      {"ListDir", list_dir}, {"Remove", remove_entry},
  };
  for (const auto& [known, method] : kMethods) {
    if (known == name) {
      return method;
    }
  }
  return nullptr;
}

}  // namespace

void serve_filesystem_rpc(Settings& settings, std::string_view method,
                          const std::shared_ptr<io::HttpExchange>& exchange) {
  const Method run = method_named(method);
  if (run == nullptr) {
    answer_rpc(*exchange, unimplemented("filesystem.Filesystem/" + std::string(method) +
                                        " is not implemented by this guest"));
    return;
  }
  if (const Status good = check_rpc_head(exchange->request(), /*stream=*/false); !good) {
    answer_rpc(*exchange, good.error());
    return;
  }
  const auto user = settings.user(basic_user(exchange->request().headers));
  if (!user) {
    answer_rpc(*exchange, user.error());
    return;
  }
  read_rpc(exchange, /*stream=*/false,
           [&settings, run, user = *user](const std::shared_ptr<io::HttpExchange>& self,
                                          const json::Value& body) {
             RpcMessage message(body);
             Call call{settings, user, message};
             answer_rpc(*self, run(call));
           });
}

}  // namespace sandboxkit::guest
