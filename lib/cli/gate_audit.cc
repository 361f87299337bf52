// The audit log of a permission gate: files on this machine, read without anybody's help.

#include "audit/folder.h"
#include "audit/read.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <optional>

namespace sandboxkit::cli {
namespace {

/// `audit verify --dir` ends with these three alone.
constexpr int kExitBroken = 1;
constexpr int kExitCannotTell = 2;

int cannot_tell(const Error& error) {
  fail(error);
  return kExitCannotTell;
}

json::Value number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

json::Value check_view(const audit::FolderCheck& check) {
  json::Array heads;
  for (const audit::Head& head : check.heads) {
    heads.push_back(
        json::Object{{"chain", head.chain}, {"record", number(head.seq)}, {"hash", head.hash}});
  }
  return json::Object{
      {"chains", number(check.chains)},
      {"records", number(check.records)},
      {"intact", check.intact()},
      {"keyed", check.keyed},
      {"after_head", number(check.after_head)},
      {"torn", number(check.torn)},
      {"heads", std::move(heads)},
      {"broken_chain", check.intact() ? json::Value(nullptr) : json::Value(check.chain)},
      {"broken_record", check.intact() ? json::Value(nullptr) : number(check.bad_seq)},
      {"problem", check.problem}};
}

std::string counted(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void print_check(const audit::FolderCheck& check) {
  if (!check.intact()) {
    const std::string record =
        check.bad_seq > 0 ? ", record " + std::to_string(check.bad_seq) : std::string();
    print_line("chain " + printable(check.chain) + record + ": " + printable(check.problem));
    return;
  }
  std::string line = counted(check.records, "record") + " in " + counted(check.chains, "chain");
  if (check.after_head > 0) {
    line += ", " + std::to_string(check.after_head) + " of them after the head";
  }
  if (check.torn > 0) {
    line += ", " + std::to_string(check.torn) + " with a torn last line";
  }
  print_line(line + (check.keyed ? ", intact" : ", intact; heads not checked against a key"));
  for (const audit::Head& head : check.heads) {
    if (is_terminal(kStandardOutput)) {
      write_all(kStandardError, "head: " + printable(head.chain) + ", record " +
                                    std::to_string(head.seq) + ", " + head.hash + "\n");
    }
  }
}

const json::Object* first_item(const json::Value& line, std::size_t& count) {
  const json::Value* items = line.find("items");
  const json::Array* list = items != nullptr ? items->as_array() : nullptr;
  count = list != nullptr ? list->size() : 0;
  return count > 0 ? list->front().as_object() : nullptr;
}

/// What the line is about: its first item, or what else it names.
std::string target_of(const audit::ParsedLine& line) {
  std::size_t count = 0;
  if (first_item(line.value, count) != nullptr) {
    const json::Value& item = line.value.find("items")->as_array()->front();
    const std::string canonical = item.text("canonical");
    const std::string more = count > 1 ? " +" + std::to_string(count - 1) : std::string();
    return item.text("op") + " " + (canonical.empty() ? item.text("requested") : canonical) + more;
  }
  const std::string grant = line.value.text("grant");
  return grant.empty() ? line.value.text("mode") : grant;
}

std::vector<std::string> row_of(const audit::ParsedLine& line) {
  std::string kind = line.kind;
  if (const std::int64_t repeat = line.value.integer("repeat"); repeat > 0) {
    kind += " x" + std::to_string(repeat);
  }
  return {line.stamp.time,
          kind,
          line.value.text("decision"),
          target_of(line),
          line.value.text("branch"),
          line.value.text("session")};
}

void print_found(const audit::FoundLine& found, bool as_json) {
  if (as_json) {
    // As it stands in the file, where that is safe on a terminal: what the log writes is.
    std::string text = audit::close_line(found.line.body, found.line.hash);
    text.pop_back();
    print_line(has_control_characters(text) ? printable(text) : text);
    return;
  }
  std::string text;
  for (const std::string& cell : row_of(found.line)) {
    text += cell.empty() ? "" : (text.empty() ? "" : "  ") + printable(cell);
  }
  print_line(text);
}

void warn_of(std::uint64_t unreadable) {
  if (unreadable > 0) {
    write_all(kStandardError, "sandboxkit: " + counted(unreadable, "line") +
                                  " cannot be read; `sandboxkit audit verify --dir` says which\n");
  }
}

}  // namespace

int verify_gate_audit(const GateAuditOptions& options) {
  std::optional<audit::Key> key;
  if (!options.key_file.empty()) {
    auto loaded = audit::Key::load(options.key_file);
    if (!loaded) {
      return cannot_tell(loaded.error());
    }
    key = *loaded;
  }
  const auto check = audit::verify_folder(options.dir, key ? &*key : nullptr);
  if (!check) {
    return cannot_tell(check.error());
  }
  if (options.json) {
    print_json(check_view(*check));
  } else {
    print_check(*check);
  }
  return check->intact() ? kExitOk : kExitBroken;
}

int show_gate_audit(const GateAuditOptions& options) {
  auto reader = audit::Reader::open(options.dir);
  if (!reader) {
    return fail(reader.error());
  }
  const auto lines = reader->newest({options.session, options.kind, options.decision},
                                    static_cast<std::size_t>(options.limit));
  if (!lines) {
    return fail(lines.error());
  }
  Table table({"TIME", "KIND", "DECISION", "WHAT", "BRANCH", "SESSION"});
  for (const audit::FoundLine& found : *lines) {
    if (options.json) {
      print_found(found, true);
    } else {
      table.add(row_of(found.line));
    }
  }
  if (!options.json && !write_all(kStandardOutput, table.text(table_width()))) {
    return kExitBrokenPipe;
  }
  warn_of(reader->unreadable());
  return kExitOk;
}

int tail_gate_audit(const GateAuditOptions& options) {
  auto reader = audit::Reader::open(options.dir);
  if (!reader) {
    return fail(reader.error());
  }
  const audit::Wanted wanted{options.session, options.kind, options.decision};
  const auto lines = reader->newest(wanted, static_cast<std::size_t>(options.limit));
  if (!lines) {
    return fail(lines.error());
  }
  for (const audit::FoundLine& found : *lines) {
    print_found(found, options.json);
  }
  warn_of(reader->unreadable());
  while (options.follow) {
    const Status waited = reader->wait();
    const Status read = waited ? reader->read_new([&](const audit::FoundLine& found) {
      if (wanted.takes(found.line)) {
        print_found(found, options.json);
      }
    })
                               : waited;
    if (!read) {
      return fail(read.error());
    }
  }
  return kExitOk;
}

}  // namespace sandboxkit::cli
