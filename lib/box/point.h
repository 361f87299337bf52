#pragma once

#include "sandboxkit/file_eyes.h"

namespace sandboxkit::box {

/// Makes what is missing on the way to `path`, which has no first slash, step by step below `root`
/// and through no link; the last name is a directory or an empty file. Between clone and exec.
/// Returns a descriptor of the last one, or -1 with errno.
///
/// `memory`: a directory in the file system of the box's areas, or -1. Where an area takes nothing
/// any more a name is made all the same when the area is of that file system, and nowhere else.
int make_point(int root, const char* path, FileType type, int memory);

}  // namespace sandboxkit::box
