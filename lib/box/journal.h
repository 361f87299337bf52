#pragma once

#include "sandboxkit/file_eyes.h"
#include "sandboxkit/result.h"

#include "io/fd.h"

#include <string>
#include <vector>

namespace sandboxkit::box {

/// Opens the folder, which is the caller's alone, and makes it when it is not there.
/// Errors: kPermissionDenied `box_state` when somebody else could write there.
Result<io::Fd> open_state(const std::string& path);

/// Empty files that hold names in live trees while a box runs.
///
/// A journal in the state folder names each before it is made, and is locked for as long as its
/// owner lives: what a killed run left is taken away by the next one. A name that another live run
/// holds is shared, and goes with the last of them. Nothing but an empty file of ours is removed.
class Placeholders {
 public:
  static constexpr std::size_t kMaxJournalBytes = 4U << 20;

  /// Cleans what dead runs left, then makes these (absolute, canonical paths). Errors: kConflict
  /// when something stands there; nothing is left then.
  static Result<Placeholders> make(const std::string& state_dir,
                                   const std::vector<std::string>& paths);
  Placeholders(Placeholders&&) noexcept = default;
  Placeholders& operator=(Placeholders&&) noexcept = default;
  Placeholders(const Placeholders&) = delete;
  Placeholders& operator=(const Placeholders&) = delete;
  ~Placeholders() { clear(); }

  /// What stands at each path, in the order of the paths.
  const std::vector<FileIdentity>& identities() const { return identities_; }
  void clear();

 private:
  Placeholders(io::Fd folder, io::Fd lock, std::string name)
      : folder_(std::move(folder)), lock_(std::move(lock)), name_(std::move(name)) {}
  Status hold(const std::string& path);

  io::Fd folder_;
  io::Fd lock_;
  std::string name_;
  std::vector<std::string> paths_;
  std::vector<FileIdentity> identities_;
};

}  // namespace sandboxkit::box
