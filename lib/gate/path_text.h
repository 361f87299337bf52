#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

inline constexpr std::size_t kMaxPathBytes = 4096;

/// The components of a path as they were written, without `.` and empty ones; `..` stays.
std::vector<std::string_view> components_of(std::string_view path);

/// Absolute, without `.`, `..`, empty components, a final slash (but `/`) or NUL.
bool is_plain_absolute(std::string_view path);

/// Whether a working folder can be the base of relative paths: absolute, in any spelling.
bool is_base(std::string_view cwd);

/// `path` joined to `cwd`; an absolute one stays as it is.
std::string joined(std::string_view cwd, std::string_view path);

/// `path` joined to `cwd`, with `.`, `..` and double slashes taken out by text alone.
std::string plain_path(std::string_view cwd, std::string_view path);

/// Whether `path` is `directory` or lies below it; whole components, exact bytes.
bool covers(std::string_view directory, std::string_view path);

std::string_view parent_of(std::string_view plain);
std::string_view leaf_of(std::string_view plain);

/// Whether the spelling goes through a link of the kernel that is no text
/// (`/proc/PID/root`, `/dev/fd`), at any step on its way. Source: hardlock H4.
bool goes_through_magic(std::string_view cwd, std::string_view path);

/// Whether a plain path is `/proc/NUMBER` or below. Source: hardlock H8.
bool is_in_other_process(std::string_view plain);

/// `/proc/self` and `/proc/thread-self` mean whoever looks, so the gate judges them by spelling;
/// `/dev/stdin`, `/dev/stdout` and `/dev/stderr` likewise.
bool is_own_by_spelling(std::string_view plain);

}  // namespace sandboxkit::gate
