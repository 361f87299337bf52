#include "docker/tar.h"

#include <memory>

#include <archive.h>
#include <archive_entry.h>

namespace sandboxkit::docker {
namespace {

struct FreeWriter {
  void operator()(archive* out) const { archive_write_free(out); }
};
struct FreeReader {
  void operator()(archive* in) const { archive_read_free(in); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

la_ssize_t append_to(archive*, void* user, const void* data, std::size_t size) {
  static_cast<std::string*>(user)->append(static_cast<const char*>(data), size);
  return static_cast<la_ssize_t>(size);
}

bool add(archive* out, const TarFile& file) {
  const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
  archive_entry_set_pathname(entry.get(), file.path.c_str());
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(file.bytes.size()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), static_cast<mode_t>(file.mode));
  return archive_write_header(out, entry.get()) == ARCHIVE_OK &&
         archive_write_data(out, file.bytes.data(), file.bytes.size()) ==
             static_cast<la_ssize_t>(file.bytes.size());
}

}  // namespace

Result<std::string> pack_tar(std::span<const TarFile> files) {
  std::string tar;
  const std::unique_ptr<archive, FreeWriter> out(archive_write_new());
  archive_write_set_format_pax_restricted(out.get());
  archive_write_open(out.get(), &tar, nullptr, append_to, nullptr);
  bool written = true;
  for (const TarFile& file : files) {
    written = written && add(out.get(), file);
  }
  if (!written || archive_write_close(out.get()) != ARCHIVE_OK) {
    return Error{ErrorCode::kInternal, "cannot make a tar archive"};
  }
  return tar;
}

Result<TarEntry> first_of_tar(std::string_view tar, std::size_t max_bytes) {
  const Error unreadable{ErrorCode::kInvalidArgument,
                         "the archive holds neither a file nor a link"};
  const std::unique_ptr<archive, FreeReader> in(archive_read_new());
  archive_read_support_format_tar(in.get());
  archive_entry* entry = nullptr;  // Theirs.
  if (archive_read_open_memory(in.get(), tar.data(), tar.size()) != ARCHIVE_OK ||
      archive_read_next_header(in.get(), &entry) != ARCHIVE_OK) {
    return unreadable;
  }
  const char* link = archive_entry_symlink(entry);
  if (archive_entry_filetype(entry) == AE_IFLNK && link != nullptr && *link != '\0') {
    return TarEntry{.link = link};
  }
  const la_int64_t size = archive_entry_size(entry);
  if (archive_entry_filetype(entry) != AE_IFREG || size < 0) {
    return unreadable;
  }
  if (static_cast<std::size_t>(size) > max_bytes) {
    return Error{ErrorCode::kTooLarge, "the file is too large"};
  }
  TarEntry found;
  found.bytes.resize(static_cast<std::size_t>(size));
  if (archive_read_data(in.get(), found.bytes.data(), found.bytes.size()) != size) {
    return unreadable;
  }
  return found;
}

}  // namespace sandboxkit::docker
