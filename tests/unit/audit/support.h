#pragma once

#include "audit/files.h"
#include "audit/folder.h"
#include "audit/log.h"
#include "audit/record.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

/// What the tests of the gate's log share: a folder, time that stands still, records.
namespace sandboxkit::audit {

class TestClock final : public Clock {
 public:
  WallTime now() const override { return WallTime(std::chrono::milliseconds(ms_.load())); }
  void set(std::int64_t ms) { ms_ = ms; }
  void advance(std::chrono::milliseconds by) { ms_ += by.count(); }

 private:
  std::atomic<std::int64_t> ms_{1'796'000'000'000};  // Noon of a day.
};

class TestTicks final : public Ticks {
 public:
  std::chrono::microseconds now() const override { return std::chrono::microseconds(us_.load()); }
  void advance(std::chrono::microseconds by) { us_ += by.count(); }

 private:
  std::atomic<std::int64_t> us_{1'000'000};
};

class TestRandom final : public Random {
 public:
  void fill(std::span<std::uint8_t> bytes) override {
    const std::lock_guard lock(mutex_);
    for (std::uint8_t& byte : bytes) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      byte = static_cast<std::uint8_t>(state_ >> 56);
    }
  }

 private:
  std::mutex mutex_;
  std::uint64_t state_ = 42;
};

inline Key test_key(std::uint8_t first = 1) {
  Key::Bytes bytes{};
  bytes[0] = first;
  return Key(bytes);
}

inline Record decision(Verdict verdict, std::string operation, std::string path) {
  Record record;
  record.session = "s1";
  record.agent = "tester";
  record.decision = verdict;
  record.branch = "work_tree";
  record.items.push_back({.operation = std::move(operation), .requested = path, .canonical = path});
  return record;
}

/// A state folder of one test, with what stands around a log.
struct World {
  TestClock clock;
  TestTicks ticks;
  TestRandom random;
  std::string base;
  std::string key_file;

  World() {
    // In memory where that is there: these tests sync thousands of times.
    const bool in_memory = ::access("/dev/shm", W_OK) == 0;
    std::string name = (in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
                       "/sandboxkit-audit-XXXXXX";
    base = ::mkdtemp(name.data()) != nullptr ? name : std::string();
    key_file = base + "/audit.key";
  }
  ~World() { std::filesystem::remove_all(base); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::string folder() const { return base + "/audit"; }
  Surroundings machine() { return {clock, ticks, random}; }
  LogOptions options() const { return {.folder = folder(), .key_file = key_file}; }
  std::unique_ptr<Log> log() { return log(options()); }
  std::unique_ptr<Log> log(const LogOptions& options) {
    auto opened = Log::open(options, machine());
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    return std::move(*opened);
  }
  Entry entry(const Record& record) const {
    const Fields fields = render_fields(record, test_key());
    return {fields.what + fields.which, clock.now(), ticks.now()};
  }
  void append(Log& log, const std::string& path) const {
    REQUIRE(log.append(entry(decision(Verdict::kAllow, "write", path))).has_value());
  }
  Key key() const { return Key::load(key_file).value(); }
  FolderCheck verify(const Key* key) const {
    const auto check = verify_folder(folder(), key);
    REQUIRE_MESSAGE(check.has_value(), (check ? "" : check.error().message));
    return *check;
  }
  FolderCheck verify() const {
    const Key own = key();
    return verify(&own);
  }
  /// The log's segments, in the order of their names' numbers.
  std::vector<std::string> segments() const {
    std::vector<std::pair<std::uint64_t, std::string>> found;
    for (const auto& file : std::filesystem::directory_iterator(folder())) {
      if (const auto name = segment_name_from(file.path().filename().string())) {
        found.emplace_back(name->number, file.path().string());
      }
    }
    std::ranges::sort(found);
    std::vector<std::string> paths;
    for (auto& [number, path] : found) {
      paths.push_back(std::move(path));
    }
    return paths;
  }
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_all(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

/// Files of this process may not grow past `bytes` while it lives: a disk that is full, for
/// anybody.
class FullDisk {
 public:
  explicit FullDisk(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit full = before_;
    full.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  NoSizeSignal no_signal_{};
};

}  // namespace sandboxkit::audit
