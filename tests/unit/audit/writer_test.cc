#include "audit/writer.h"

#include "tests/unit/audit/support.h"

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::audit;  // NOLINT(google-build-using-namespace)

namespace {

std::unique_ptr<Writer> open_writer(World& world) {
  auto writer = Writer::open(world.options(), world.machine());
  REQUIRE_MESSAGE(writer.has_value(), (writer ? "" : writer.error().message));
  return std::move(*writer);
}

/// What the lines of the log say, without its own kinds.
std::vector<json::Value> records_of(const World& world) {
  std::vector<json::Value> records;
  for (const std::string& segment : world.segments()) {
    for (const std::string& text : lines_of(read_all(segment))) {
      auto line = parse_line(text);
      REQUIRE(line.has_value());
      if (line->kind != kOpen && line->kind != kSeal && line->kind != kRetire) {
        records.push_back(std::move(line->value));
      }
    }
  }
  return records;
}

/// Holds whoever asks for the time: the writer's thread, with a record in its hand.
class HeldClock final : public Clock {
 public:
  WallTime now() const override {
    std::unique_lock lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    return WallTime(std::chrono::milliseconds(1'796'000'000'000));
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
    asked_ = false;
  }
  void wait_until_asked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asked_; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool held_ = false;
  mutable bool asked_ = false;
};

Record allowed_read(const std::string& path) { return decision(Verdict::kAllow, "read", path); }
Record allowed_write(const std::string& path) { return decision(Verdict::kAllow, "write", path); }
Record denied(const std::string& path) { return decision(Verdict::kDeny, "read", path); }

}  // namespace

TEST_CASE("a denial is on the disk and under the head when its call returns") {
  World world;
  const auto writer = open_writer(world);
  REQUIRE(writer->write(denied("/x")).has_value());
  CHECK(records_of(world).size() == 1);
  const FolderCheck check = world.verify();
  CHECK(check.intact());
  CHECK(check.after_head == 0);
  CHECK(writer->state().head.seq == 2);
  CHECK(writer->state().head == check.heads[0]);
}

TEST_CASE("allowed reads and writes reach the disk with the next one that has to") {
  World world;
  const auto writer = open_writer(world);
  for (int i = 0; i < 10; ++i) {
    REQUIRE(writer->write(allowed_write("/w/" + std::to_string(i))).has_value());
  }
  REQUIRE(writer->write(denied("/x")).has_value());
  const auto records = records_of(world);
  REQUIRE(records.size() == 11);
  CHECK(records[10].text("decision") == "deny");
  CHECK(world.verify().after_head == 0);
}

TEST_CASE("a group is synced by itself when it is large enough") {
  World world;
  const auto writer = open_writer(world);
  const std::uint64_t before = writer->state().head.seq;
  for (std::size_t i = 0; i < kGroupLines; ++i) {
    REQUIRE(writer->write(allowed_write("/w/" + std::to_string(i))).has_value());
  }
  // Time stands still, so nothing but the group's size makes it go.
  while (writer->state().head.seq < before + kGroupLines) {
    std::this_thread::yield();
  }
  CHECK(world.verify().after_head == 0);
}

TEST_CASE("a group is synced by itself when its time is over") {
  World world;
  auto writer = Writer::open(world.options(), {world.clock, system_ticks(), world.random});
  REQUIRE(writer.has_value());
  REQUIRE((*writer)->write(allowed_write("/w/1")).has_value());
  while ((*writer)->state().head.seq < 2) {
    std::this_thread::yield();
  }
  CHECK(records_of(world).size() == 1);
}

TEST_CASE("equal allowed reads within a second become one line and a count") {
  World world;
  const auto writer = open_writer(world);
  for (int i = 0; i < 100; ++i) {
    Record record = allowed_read("/w/a");
    record.request = "r" + std::to_string(i);
    record.duration_us = static_cast<std::uint64_t>(i);
    REQUIRE(writer->write(record).has_value());
  }
  REQUIRE(writer->write(allowed_read("/w/b")).has_value());
  REQUIRE(writer->flush().has_value());
  const auto records = records_of(world);
  REQUIRE(records.size() == 3);
  CHECK(records[0].text("req") == "r0");
  CHECK(records[0].find("repeat") == nullptr);
  CHECK(records[1].find("items")->as_array()->front().text("canonical") == "/w/b");
  CHECK(records[2].integer("repeat") == 99);
  CHECK(records[2].find("items")->as_array()->front().text("canonical") == "/w/a");
}

TEST_CASE("writes, denials and commands are never counted") {
  World world;
  const auto writer = open_writer(world);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(writer->write(allowed_write("/w/a")).has_value());
    REQUIRE(writer->write(denied("/w/a")).has_value());
    REQUIRE(writer->write(decision(Verdict::kAllow, "exec", "/bin/x")).has_value());
  }
  CHECK(records_of(world).size() == 9);
}

TEST_CASE("the fold has its second, its number and its size") {
  using std::chrono::microseconds;
  Fold fold;
  CHECK_FALSE(fold.take("a", microseconds(0)));
  CHECK(fold.take("a", microseconds(999'999)));
  CHECK(fold.due(microseconds(999'999)).empty());
  CHECK(fold.next() == microseconds(1'000'000));
  const auto over = fold.due(microseconds(1'000'000));
  REQUIRE(over.size() == 1);
  CHECK(over[0].count == 1);
  CHECK_FALSE(fold.take("a", microseconds(1'000'000)));
  CHECK(fold.due(microseconds(5'000'000)).empty());  // Nothing was said again.
  CHECK_FALSE(fold.next().has_value());

  for (std::size_t i = 0; i < Fold::kMaxFolded; ++i) {
    CHECK_FALSE(fold.take(std::to_string(i), microseconds(0)));
  }
  CHECK(fold.take("0", microseconds(0)));
  CHECK_FALSE(fold.take("one more", microseconds(0)));
  CHECK_FALSE(fold.take("one more", microseconds(0)));
  CHECK(fold.drain().size() == 1);
  CHECK_FALSE(fold.take(std::string(Fold::kMaxFoldedBytes, 'x'), microseconds(0)));
  CHECK(fold.take(std::string(Fold::kMaxFoldedBytes, 'x'), microseconds(0)));
  CHECK_FALSE(fold.take(std::string(Fold::kMaxFoldedBytes + 1, 'x'), microseconds(0)));
  CHECK_FALSE(fold.take(std::string(Fold::kMaxFoldedBytes + 1, 'x'), microseconds(0)));
}

// Case 96 of the gate's design: what the gate makes of these answers is its own table.
TEST_CASE("while the disk is full every record is refused, and the first after it counts them") {
  World world;
  const auto writer = open_writer(world);
  REQUIRE(writer->write(allowed_write("/w/1")).has_value());
  REQUIRE(writer->write(denied("/w/2")).has_value());
  {
    const FullDisk full(std::filesystem::file_size(world.segments()[0]) + 10);
    const Status refused = writer->write(denied("/w/3"));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kUnavailable);
    CHECK(refused.error().reason == "audit_unavailable");
    CHECK_FALSE(writer->state().writable);
    CHECK(writer->state().problem.find("too large") != std::string::npos);
    // Now what may be late waits for its answer as well.
    CHECK_FALSE(writer->write(allowed_read("/w/4")).has_value());
    CHECK_FALSE(writer->write(allowed_write("/w/5")).has_value());
    CHECK(writer->state().lost == 3);
    CHECK(world.verify().intact());
    CHECK(writer->flush().has_value());  // Nothing that was taken waits.
    CHECK_FALSE(writer->state().writable);
  }
  REQUIRE(writer->write(allowed_read("/w/6")).has_value());
  CHECK(writer->state().writable);
  CHECK(writer->state().lost == 3);
  const auto records = records_of(world);
  REQUIRE(records.size() == 3);
  CHECK(records[2].integer("lost") == 3);
  CHECK(world.verify().intact());
}

TEST_CASE("what was taken before the disk was full is written when there is room") {
  World world;
  const auto writer = open_writer(world);
  {
    const FullDisk full(std::filesystem::file_size(world.segments()[0]) + 10);
    REQUIRE(writer->write(allowed_write("/w/1")).has_value());
    CHECK_FALSE(writer->flush().has_value());
    CHECK_FALSE(writer->write(denied("/w/2")).has_value());
  }
  REQUIRE(writer->flush().has_value());
  CHECK(writer->state().writable);
  const auto records = records_of(world);
  REQUIRE(records.size() == 1);
  CHECK(records[0].find("items")->as_array()->front().text("canonical") == "/w/1");
  REQUIRE(writer->write(denied("/w/3")).has_value());
  CHECK(records_of(world)[1].integer("lost") == 1);
  CHECK(world.verify().intact());
}

TEST_CASE("the queue has a number and a size, and what is above them is refused and counted") {
  for (const bool large : {false, true}) {
    CAPTURE(large);
    World world;
    HeldClock clock;
    auto writer = Writer::open(world.options(), {clock, world.ticks, world.random});
    REQUIRE(writer.has_value());
    clock.hold();
    REQUIRE((*writer)->write(allowed_write("/first")).has_value());
    clock.wait_until_asked();
    const Record record = allowed_write(large ? std::string(8000, 'x') : "/w");
    const Fields fields = render_fields(record, test_key());
    const std::size_t room = large ? kMaxQueuedBytes / fields.what.size() : kMaxQueued;
    for (std::size_t i = 0; i < room; ++i) {
      REQUIRE((*writer)->write(record).has_value());
    }
    const Status refused = (*writer)->write(record);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().reason == "audit_queue_full");
    CHECK((*writer)->state().lost == 1);
    CHECK((*writer)->write(record).error().reason == "audit_queue_full");
    clock.release();
    REQUIRE((*writer)->flush().has_value());
    const auto records = records_of(world);
    CHECK(records.size() == room + 1);
    CHECK(records[1].integer("lost") == 2);
    CHECK(world.verify().intact());
  }
}

TEST_CASE("a head that cannot be renewed is a failure as well") {
  World world;
  const auto writer = open_writer(world);
  const std::string blocker = world.folder() + "/" + head_file(writer->state().head.chain) + ".new";
  std::filesystem::create_directory(blocker);
  CHECK_FALSE(writer->write(denied("/x")).has_value());
  CHECK(records_of(world).empty());
  std::filesystem::remove(blocker);
  CHECK(writer->write(denied("/x")).has_value());
  CHECK(world.verify().intact());
}

TEST_CASE("many threads write one chain") {
  World world;
  const auto writer = open_writer(world);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string path = "/w/" + std::to_string(t) + "/" + std::to_string(i);
        CHECK(writer->write(i % 5 == 0 ? denied(path) : allowed_write(path)).has_value());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(writer->close().has_value());
  CHECK(records_of(world).size() == 400);
  CHECK(world.verify().intact());
}

TEST_CASE("at its end the log is sealed, and refuses what comes later") {
  World world;
  const auto writer = open_writer(world);
  REQUIRE(writer->write(allowed_read("/w/a")).has_value());
  REQUIRE(writer->write(allowed_read("/w/a")).has_value());
  REQUIRE(writer->close().has_value());
  CHECK(writer->write(denied("/x")).error().reason == "audit_unavailable");
  CHECK(records_of(world).size() == 2);
  const auto lines = lines_of(read_all(world.segments()[0]));
  CHECK(parse_line(lines.back())->kind == kSeal);
  CHECK(world.verify().intact());
}

TEST_CASE("a log that cannot be opened leaves nothing behind that breaks the folder") {
  World world;
  { const auto writer = open_writer(world); }
  {
    const FullDisk full(0);
    CHECK_FALSE(Writer::open(world.options(), world.machine()).has_value());
  }
  {
    const FullDisk full(250);  // Room for a head, and for no opening.
    CHECK_FALSE(Writer::open(world.options(), world.machine()).has_value());
  }
  const FolderCheck check = world.verify();
  CHECK(check.intact());
  CHECK(check.chains == 1);
}
