#include "audit/log.h"

#include "audit/retire.h"
#include "base/text.h"
#include "tests/unit/audit/support.h"

#include <functional>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::audit;  // NOLINT(google-build-using-namespace)

namespace {

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777U : 0;
}

/// A log of one segment: the opening and `records` lines behind it, all under the head.
std::unique_ptr<Log> write_log(World& world, int records) {
  auto log = world.log();
  for (int i = 0; i < records; ++i) {
    world.append(*log, "/w/" + std::to_string(i));
  }
  REQUIRE(log->commit().has_value());
  return log;
}

/// Lines of about 8 KiB, so that a small segment is full soon.
void append_large(const World& world, Log& log, int count) {
  for (int i = 0; i < count; ++i) {
    Record record = decision(Verdict::kAllow, "write", "/w/" + std::string(7900, 'x'));
    REQUIRE(log.append(world.entry(record)).has_value());
    REQUIRE(log.commit().has_value());
  }
}

LogOptions small_segments(const World& world) {
  LogOptions options = world.options();
  options.max_segment_bytes = kMinSegmentBytes;
  return options;
}

void edit(const std::string& path, const std::function<void(std::vector<std::string>&)>& change) {
  std::vector<std::string> lines = lines_of(read_all(path));
  change(lines);
  write_all(path, joined(lines));
}

/// As an attacker without a key would: every hash from `from` on is made anew.
void hash_again(std::vector<std::string>& lines, std::size_t from) {
  std::string previous = from == 0 ? "" : open_line(lines[from - 1])->hash;
  for (std::size_t i = from; i < lines.size(); ++i) {
    std::string body = open_line(lines[i])->body;
    const std::size_t at = body.rfind(",\"prev\":");
    body = body.substr(0, at) + ",\"prev\":\"" + previous + "\"}";
    previous = chain_hash(previous, body);
    lines[i] = close_line(body, previous);
    lines[i].pop_back();
  }
}

}  // namespace

TEST_CASE("folder, files and key belong to their owner alone") {
  World world;
  const auto log = write_log(world, 3);
  CHECK(mode_of(world.folder()) == 0700);
  CHECK(mode_of(world.segments()[0]) == 0600);
  CHECK(mode_of(world.folder() + "/" + head_file(log->head().chain)) == 0600);
  CHECK(mode_of(world.key_file) == 0600);
  CHECK(read_all(world.key_file).size() == Key::kBytes);
}

TEST_CASE("a folder or key that others may use is refused, and so is a link") {
  World world;
  std::filesystem::create_directory(world.folder());
  ::chmod(world.folder().c_str(), 0750);
  auto refused = Log::open(world.options(), world.machine());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == "bad_audit_folder");
  CHECK(refused.error().message.find("0700") != std::string::npos);

  std::filesystem::remove(world.folder());
  std::filesystem::create_directory(world.base + "/real");
  ::chmod((world.base + "/real").c_str(), 0700);
  std::filesystem::create_symlink(world.base + "/real", world.folder());
  CHECK_FALSE(Log::open(world.options(), world.machine()).has_value());

  std::filesystem::remove(world.folder());
  write_all(world.key_file, std::string(Key::kBytes, 'k'));
  ::chmod(world.key_file.c_str(), 0640);
  refused = Log::open(world.options(), world.machine());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == "bad_audit_key");
  ::chmod(world.key_file.c_str(), 0600);
  CHECK(Log::open(world.options(), world.machine()).has_value());
  write_all(world.key_file, std::string(Key::kBytes - 1, 'k'));
  CHECK_FALSE(Log::open(world.options(), world.machine()).has_value());
}

TEST_CASE("limits that make no sense are refused with their name") {
  World world;
  LogOptions options = world.options();
  options.max_segment_bytes = kMinSegmentBytes - 1;
  CHECK(Log::open(options, world.machine()).error().field == "max_segment_bytes");
  options = world.options();
  options.retention = std::chrono::hours(23);
  CHECK(Log::open(options, world.machine()).error().field == "retention");
}

TEST_CASE("a line is numbered, timed, chained, and hashed over its exact bytes") {
  World world;
  const auto log = write_log(world, 2);
  const auto lines = lines_of(read_all(world.segments()[0]));
  REQUIRE(lines.size() == 3);
  std::string previous;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = parse_line(lines[i]);
    REQUIRE(line.has_value());
    CHECK(line->stamp.seq == i + 1);
    CHECK(line->stamp.segment == 1);
    CHECK(line->stamp.time == to_rfc3339(world.clock.now()));
    CHECK(line->stamp.monotonic_us == 1'000'000);
    CHECK(line->stamp.previous == previous);
    const std::string without = lines[i].substr(0, lines[i].rfind(",\"h\":")) + "}";
    CHECK(line->hash ==
          sha256_hex(std::to_string(previous.size()) + ":" + previous + "," + without));
    previous = line->hash;
  }
  CHECK(log->head() == Head{log->head().chain, 1, 3, previous});
  const FolderCheck check = world.verify();
  CHECK(check.intact());
  CHECK(check.records == 3);
  CHECK(check.after_head == 0);
}

// Cases 97 and 98 of the gate's design, bypass B39.
TEST_CASE("whoever touches a line is found out at that line") {
  using Lines = std::vector<std::string>;
  struct Attack {
    const char* name;
    std::function<void(Lines&)> change;
    std::uint64_t bad_seq;
    const char* how;
  };
  const Attack attacks[] = {
      {"the last three are cut", [](Lines& l) { l.resize(37); }, 38,
       "truncated at 37: the head names record 40"},
      {"one is edited", [](Lines& l) { l[6].replace(l[6].find("/w/5"), 4, "/w/6"); }, 7,
       "does not fit its content"},
      {"two are swapped", [](Lines& l) { std::swap(l[6], l[7]); }, 7, "record 7 is missing"},
      {"one is removed", [](Lines& l) { l.erase(l.begin() + 6); }, 7, "record 7 is missing"},
      {"two are removed", [](Lines& l) { l.erase(l.begin() + 6, l.begin() + 8); }, 7,
       "records 7 to 8 are missing"},
      {"one is doubled", [](Lines& l) { l.insert(l.begin() + 6, l[5]); }, 7,
       "record 6 stands in its place"},
      {"one is inserted", [](Lines& l) { l.insert(l.begin() + 6, l[6]); }, 8,
       "record 7 stands in its place"},
      {"the first is removed", [](Lines& l) { l.erase(l.begin()); }, 1, "does not open a segment"},
      {"an empty line stands between", [](Lines& l) { l.insert(l.begin() + 6, ""); }, 7,
       "does not end with a hash"},
      {"text stands between", [](Lines& l) { l.insert(l.begin() + 6, "{}"); }, 7,
       "does not end with a hash"},
      {"a line is longer than a line may be",
       [](Lines& l) { l[6].insert(10, std::string(kMaxLineBytes, ' ')); }, 7, "longer than a line"},
      {"a member is doubled",
       [](Lines& l) {
         l[6].insert(1, "\"seq\":7,");
         hash_again(l, 6);
       },
       7, "no JSON object"},
      {"of another version",
       [](Lines& l) {
         l[6].replace(l[6].find("\"v\":1"), 5, "\"v\":2");
         hash_again(l, 6);
       },
       7, "version"},
      {"all is hashed again after an edit",
       [](Lines& l) {
         l[6].replace(l[6].find("/w/5"), 4, "/w/6");
         hash_again(l, 6);
       },
       40, "not the record that the head names"},
      {"one is hashed again",
       [](Lines& l) {
         l[6].replace(l[6].find("/w/5"), 4, "/w/6");
         Lines some(l.begin(), l.begin() + 7);
         hash_again(some, 6);
         l[6] = some[6];
       },
       8, "does not fit its content and the record before it"},
  };
  for (const Attack& attack : attacks) {
    CAPTURE(std::string(attack.name));
    World world;
    { const auto log = write_log(world, 39); }
    edit(world.segments()[0], attack.change);
    const FolderCheck check = world.verify();
    CHECK_FALSE(check.intact());
    CHECK(check.bad_seq == attack.bad_seq);
    CHECK_MESSAGE(check.problem.find(attack.how) != std::string::npos, check.problem);
    CHECK(check.chain.find(std::to_string(::getpid())) != std::string::npos);
  }
}

TEST_CASE(
    "without its key, a log that was made anew with its head does not show; with it, it does") {
  World world;
  { const auto log = write_log(world, 9); }
  std::string last;
  edit(world.segments()[0], [&](std::vector<std::string>& lines) {
    lines[3].replace(lines[3].find("/w/2"), 4, "/w/x");
    hash_again(lines, 3);
    last = open_line(lines.back())->hash;
  });
  const std::string name =
      segment_name_from(std::filesystem::path(world.segments()[0]).filename().string())->chain;
  const Head forged{name, 1, 10, last};
  write_all(world.folder() + "/" + head_file(name), render_head(forged, nullptr));
  CHECK(world.verify(nullptr).intact());
  CHECK(world.verify().problem == "its head is not signed");
  const Key wrong = test_key(9);
  write_all(world.folder() + "/" + head_file(name), render_head(forged, &wrong));
  CHECK(world.verify(nullptr).intact());
  CHECK(world.verify().problem == "its head is not signed with this key");
  std::filesystem::remove(world.folder() + "/" + head_file(name));
  CHECK(world.verify(nullptr).problem.find("no head file") != std::string::npos);
}

TEST_CASE("a head counts for its own chain alone") {
  World world;
  const auto first = write_log(world, 3);
  const auto second = write_log(world, 3);
  REQUIRE(first->head().chain != second->head().chain);
  std::filesystem::copy_file(world.folder() + "/" + head_file(first->head().chain),
                             world.folder() + "/" + head_file(second->head().chain),
                             std::filesystem::copy_options::overwrite_existing);
  const FolderCheck check = world.verify();
  CHECK(check.chain == second->head().chain);
  CHECK(check.problem.find("another chain") != std::string::npos);
}

TEST_CASE("a log is full at its size and goes on in the next segment, chained") {
  World world;
  const auto log = world.log(small_segments(world));
  append_large(world, *log, 40);
  REQUIRE(log->seal().has_value());
  const auto segments = world.segments();
  CHECK(segments.size() >= 3);
  for (const std::string& segment : segments) {
    CAPTURE(segment);
    const auto lines = lines_of(read_all(segment));
    CHECK(std::filesystem::file_size(segment) <= kMinSegmentBytes);
    const auto sealing = sealing_of(parse_line(lines.back()).value());
    REQUIRE(sealing.has_value());
    CHECK(sealing->count == lines.size());
    CHECK(sealing->head == open_line(lines[lines.size() - 2])->hash);
  }
  const auto opening = opening_of(parse_line(lines_of(read_all(segments[1]))[0]).value());
  const auto before = lines_of(read_all(segments[0]));
  REQUIRE(opening.has_value());
  CHECK(opening->previous_segment == 1);
  CHECK(opening->previous_head == open_line(before.back())->hash);
  CHECK(opening->previous_count == before.size());
  CHECK(world.verify().intact());
}

TEST_CASE("a new day begins a new segment") {
  World world;
  const auto log = write_log(world, 2);
  world.clock.advance(std::chrono::hours(24));
  world.append(*log, "/w/next");
  REQUIRE(log->commit().has_value());
  CHECK(world.segments().size() == 2);
  CHECK(world.verify().intact());
}

// Case 100 of the gate's design.
TEST_CASE("two writers in one folder, both rotating, are two whole chains") {
  World world;
  const auto first = world.log(small_segments(world));
  const auto second = world.log(small_segments(world));
  for (int i = 0; i < 20; ++i) {
    append_large(world, *first, 1);
    append_large(world, *second, 1);
  }
  const FolderCheck check = world.verify();
  CHECK_MESSAGE(check.intact(), check.problem);
  CHECK(check.chains == 2);
  CHECK(first->head().segment > 1);
  CHECK(second->head().segment > 1);
}

TEST_CASE("a rotation that was forged shows at its seam") {
  struct Attack {
    const char* name;
    std::function<void(const std::vector<std::string>&)> act;
    const char* how;
  };
  using Lines = std::vector<std::string>;
  const Attack attacks[] = {
      {"a segment in the middle is gone", [](const auto& s) { std::filesystem::remove(s[1]); },
       "segment 2 is missing"},
      {"the first segment is gone, and nobody retired it",
       [](const auto& s) { std::filesystem::remove(s[0]); },
       "segment 1 is missing, and no record retires it"},
      {"the last segment is gone", [](const auto& s) { std::filesystem::remove(s[2]); },
       "segment 3 is missing"},
      {"all segments are gone",
       [](const auto& s) {
         for (const auto& segment : s) {
           std::filesystem::remove(segment);
         }
       },
       "all of it is missing"},
      {"a segment lost its seal", [](const auto& s) { edit(s[0], [](Lines& l) { l.pop_back(); }); },
       "without its seal"},
      {"a segment lost its end, and was sealed again",
       [](const auto& s) {
         edit(s[0], [](Lines& l) {
           const auto last = parse_line(l[l.size() - 3]).value();
           const std::string body =
               render_body({last.stamp.seq + 1, last.stamp.time, 1, 1, 0, last.hash},
                           render_sealing({l.size() - 1, last.hash}));
           l.resize(l.size() - 2);
           l.push_back(close_line(body, chain_hash(last.hash, body)));
           l.back().pop_back();
         });
       },
       "the segment before it had another number of records"},
      {"a segment has something behind its seal",
       [](const auto& s) { edit(s[0], [](Lines& l) { l.push_back(l.back()); }); },
       "stands in its place"},
      {"two segments change names",
       [](const auto& s) {
         const std::string first = read_all(s[0]);
         write_all(s[0], read_all(s[1]));
         write_all(s[1], first);
       },
       "does not follow the segment before it"},
      {"a segment ends within a line", [](const auto& s) { write_all(s[0], read_all(s[0]) + "{"); },
       "ends within a line"},
  };
  for (const Attack& attack : attacks) {
    CAPTURE(std::string(attack.name));
    World world;
    {
      const auto log = world.log(small_segments(world));
      append_large(world, *log, 18);
    }
    const auto segments = world.segments();
    REQUIRE(segments.size() == 3);
    attack.act(segments);
    const FolderCheck check = world.verify();
    CHECK_MESSAGE(check.problem.find(attack.how) != std::string::npos, check.problem);
  }
}

TEST_CASE("what lies behind the head is counted, and a torn last line is no break") {
  World world;
  const auto log = write_log(world, 3);
  world.append(*log, "/w/not-yet");
  FolderCheck check = world.verify();
  CHECK(check.intact());
  CHECK(check.after_head == 1);
  write_all(world.segments()[0], read_all(world.segments()[0]) + "{\"v\":1,\"se");
  check = world.verify();
  CHECK(check.intact());
  CHECK(check.torn == 1);
}

TEST_CASE("a chain that another writer has seen cannot vanish or shrink unseen") {
  for (const bool vanish : {true, false}) {
    CAPTURE(vanish);
    World world;
    { const auto log = write_log(world, 9); }
    const std::string file = world.segments()[0];
    const std::string name =
        segment_name_from(std::filesystem::path(file).filename().string())->chain;
    const std::string head_before = [&] {
      const auto line = parse_line(lines_of(read_all(file))[3]).value();
      const Key key = world.key();
      return render_head({name, 1, 4, line.hash}, &key);
    }();
    { const auto other = write_log(world, 1); }
    REQUIRE(world.verify().intact());
    if (vanish) {
      std::filesystem::remove(file);
      std::filesystem::remove(world.folder() + "/" + head_file(name));
    } else {
      // An old head, which the key did sign once.
      edit(file, [](std::vector<std::string>& lines) { lines.resize(4); });
      write_all(world.folder() + "/" + head_file(name), head_before);
    }
    const FolderCheck check = world.verify();
    CHECK(check.chain == name);
    CHECK(check.bad_seq == (vanish ? 1 : 5));
    CHECK_MESSAGE(check.problem.find("has seen record 10") != std::string::npos, check.problem);
  }
}

TEST_CASE("retention removes old sealed segments, of dead writers too, and says so first") {
  World world;
  LogOptions options = small_segments(world);
  {
    const auto old = world.log(options);
    append_large(world, *old, 20);
    REQUIRE(old->seal().has_value());
  }
  const std::string dead =
      segment_name_from(std::filesystem::path(world.segments()[0]).filename().string())->chain;
  {
    // One that was killed: its last segment has no seal, and stays.
    const auto killed = world.log(options);
    append_large(world, *killed, 20);
  }
  world.clock.advance(std::chrono::hours(48));
  options.retention = std::chrono::hours(24);
  const auto log = world.log(options);
  CHECK(world.segments().size() == 2);
  CHECK_FALSE(std::filesystem::exists(world.folder() + "/" + head_file(dead)));
  const FolderCheck check = world.verify();
  CHECK_MESSAGE(check.intact(), check.problem);
  CHECK(check.chains == 2);
}

TEST_CASE("a log's own old segments go with a new day, and the chain still holds") {
  World world;
  LogOptions options = small_segments(world);
  options.retention = std::chrono::hours(24);
  const auto log = world.log(options);
  append_large(world, *log, 20);
  for (int day = 0; day < 4; ++day) {
    world.clock.advance(std::chrono::hours(24));
    world.append(*log, "/w/day");
    REQUIRE(log->commit().has_value());
  }
  const auto segments = world.segments();
  CHECK(segment_name_from(std::filesystem::path(segments[0]).filename().string())->number > 2);
  CHECK(world.verify().intact());
  // The head of a chain cannot stand before its beginning.
  const Key key = world.key();
  write_all(world.folder() + "/" + head_file(log->head().chain),
            render_head({log->head().chain, 1, 2, std::string(64, 'a')}, &key));
  CHECK(world.verify().problem.find("before the beginning") != std::string::npos);
}

TEST_CASE("a retirement that names another end than the one there was does not excuse the gap") {
  World world;
  {
    const auto log = world.log(small_segments(world));
    append_large(world, *log, 20);
  }
  const auto segments = world.segments();
  std::filesystem::remove(segments[0]);
  const auto name =
      segment_name_from(std::filesystem::path(segments[0]).filename().string())->chain;
  const auto liar = world.log();
  Entry entry = world.entry(Record{});
  entry.fields = render_retirement({name, 1, 3, std::string(64, 'a')});
  REQUIRE(liar->append(entry).has_value());
  REQUIRE(liar->commit().has_value());
  CHECK(world.verify().problem.find("no record retires it") != std::string::npos);
}

// Case 96 of the gate's design.
TEST_CASE(
    "a full disk is an error that leaves the log as it was, and the log goes on when there is "
    "room") {
  World world;
  const auto log = write_log(world, 3);
  const std::string before = read_all(world.segments()[0]);
  {
    const FullDisk full(before.size() + 40);  // Room for a part of a line.
    const Status refused = log->append(world.entry(decision(Verdict::kDeny, "read", "/x")));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kTooLarge);
    CHECK(read_all(world.segments()[0]) == before);
    CHECK(world.verify().intact());
  }
  world.append(*log, "/w/again");
  REQUIRE(log->commit().has_value());
  const FolderCheck check = world.verify();
  CHECK(check.intact());
  CHECK(check.records == 5);
}

TEST_CASE("a disk that is full at a rotation keeps what was there, and the seam closes later") {
  World world;
  const auto log = write_log(world, 3);
  world.clock.advance(std::chrono::hours(24));
  {
    const FullDisk full(0);
    CHECK_FALSE(log->append(world.entry(decision(Verdict::kDeny, "read", "/x"))).has_value());
    CHECK(world.segments().size() == 1);
  }
  {
    // The seal fits into what there is; the next segment's opening does not, nor does a head.
    const FullDisk full(200);
    CHECK_FALSE(log->append(world.entry(decision(Verdict::kDeny, "read", "/x"))).has_value());
  }
  world.append(*log, "/w/again");
  REQUIRE(log->commit().has_value());
  CHECK(world.segments().size() == 2);
  CHECK(world.verify().intact());
}

TEST_CASE("a folder that is no log is not called intact") {
  World world;
  CHECK(verify_folder(world.folder(), nullptr).error().code == ErrorCode::kNotFound);
  std::filesystem::create_directory(world.folder());
  CHECK(verify_folder(world.folder(), nullptr).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a new chain notes so many others, and no more") {
  World world;
  LogOptions options = world.options();
  options.key_file.clear();
  std::filesystem::create_directory(world.folder());
  ::chmod(world.folder().c_str(), 0700);
  for (std::size_t i = 0; i <= kMaxSeen; ++i) {
    const Head head{"c-" + std::to_string(i), 1, 7, std::string(kHashChars, 'a')};
    write_all(world.folder() + "/" + head_file(head.chain), render_head(head, nullptr));
  }
  const auto log = world.log(options);
  const auto opening = opening_of(parse_line(lines_of(read_all(world.segments()[0]))[0]).value());
  REQUIRE(opening.has_value());
  CHECK(opening->seen.size() == kMaxSeen);
}

TEST_CASE("one process id has so many chains, and no more") {
  World world;
  const std::string base = [&] { return world.log()->head().chain; }();
  for (int i = 2; i < kMaxWritersOfPid; ++i) {
    write_all(world.folder() + "/" + head_file(base + "." + std::to_string(i)), "");
  }
  CHECK(world.log()->head().chain == base + "." + std::to_string(kMaxWritersOfPid));
  const auto refused = Log::open(world.options(), world.machine());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kResourceExhausted);
}

TEST_CASE("so many segments are retired at once, and the rest later") {
  World world;
  LogOptions options = world.options();
  options.key_file.clear();
  { const auto log = world.log(options); }
  std::filesystem::remove_all(world.folder());
  std::filesystem::create_directory(world.folder());
  ::chmod(world.folder().c_str(), 0700);
  Head head{"c-1"};
  std::uint64_t count = 0;
  for (std::uint64_t segment = 1; segment <= kMaxRetiredAtOnce + 1; ++segment) {
    std::string text;
    const auto add = [&](const std::string& fields) {
      const std::string body =
          render_body({head.seq + 1, "2020-01-01T00:00:00.000Z", 1, segment, 0, head.hash}, fields);
      head = {"c-1", segment, head.seq + 1, chain_hash(head.hash, body)};
      text += close_line(body, head.hash);
    };
    add(render_opening({"c-1", segment - 1, head.hash, count}));
    count = 2;
    add(render_sealing({count, head.hash}));
    write_all(world.folder() + "/" + segment_file("c-1", segment), text);
  }
  write_all(world.folder() + "/" + head_file("c-1"), render_head(head, nullptr));
  REQUIRE(world.verify(nullptr).intact());
  options.retention = std::chrono::hours(24);
  const auto log = world.log(options);
  CHECK(world.segments().size() == 2);  // The new one, and one that is left.
  CHECK(std::filesystem::exists(world.folder() + "/" + segment_file("c-1", kMaxRetiredAtOnce + 1)));
  const FolderCheck check = world.verify(nullptr);
  CHECK_MESSAGE(check.intact(), check.problem);
  const auto second = world.log(options);
  CHECK_FALSE(std::filesystem::exists(world.folder() + "/" + head_file("c-1")));
  CHECK(world.verify(nullptr).intact());
}

TEST_CASE("names that are not the log's are passed over") {
  for (const char* name :
       {"x.jsonl", "-1.jsonl", "a-0.jsonl", "a-01.jsonl", "a-1.json", "A-1.jsonl", "../a-1.jsonl",
        ".a-1.jsonl", "a-99999999999999999999.jsonl"}) {
    CAPTURE(std::string(name));
    CHECK_FALSE(segment_name_from(name).has_value());
  }
  CHECK(segment_name_from("0123abcd-77.2-10.jsonl")->chain == "0123abcd-77.2");
  CHECK(chain_of_head_file("0123abcd-77.2.head") == "0123abcd-77.2");
  CHECK_FALSE(chain_of_head_file("0123abcd-77.head.new").has_value());
}
