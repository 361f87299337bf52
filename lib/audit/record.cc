#include "audit/record.h"

#include "audit/escape.h"
#include "audit/redact.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sandboxkit::audit {
namespace {

constexpr auto kReads = std::to_array<std::string_view>({"read", "list", "stat"});
constexpr auto kWrites = std::to_array<std::string_view>(
    {"write", "create", "delete", "meta", "rename", "link", "symlink"});

bool is_read(const Item& item) { return std::ranges::find(kReads, item.operation) != kReads.end(); }
bool is_of_files(const Item& item) {
  return is_read(item) || std::ranges::find(kWrites, item.operation) != kWrites.end();
}

/// Builds the members and remembers whether something was cut.
class Members {
 public:
  explicit Members(const Key& salt) : salt_(salt) {}

  void text(std::string_view name, std::string_view text, std::size_t max_bytes = kMaxNameBytes) {
    cut_ = !append_member(out_, name, text, max_bytes) || cut_;
  }
  void number(std::string_view name, std::optional<std::uint64_t> value) {
    if (value) {
      out_ += ",\"" + std::string(name) + "\":" + std::to_string(*value);
    }
  }
  void items(const std::vector<Item>& items);
  void box(const Box& box);
  /// Without the comma that the first member begins with.
  std::string take() {
    if (cut_) {
      out_ += ",\"cut\":true";
    }
    return out_.substr(1);
  }

 private:
  std::string item(const Item& item);
  void arguments(const std::vector<std::string>& argv);

  const Key& salt_;
  std::string out_;
  bool cut_ = false;
};

void Members::arguments(const std::vector<std::string>& argv) {
  if (argv.empty()) {
    return;
  }
  const std::size_t begin = out_.size();
  out_ += ",\"argv\":[";
  std::size_t count = 0;
  for (const std::string& word : redact_argv(argv, salt_)) {
    if (count == kMaxArguments || out_.size() - begin > kMaxArgvBytes - kMaxArgumentBytes) {
      cut_ = true;
      break;
    }
    out_ += count++ == 0 ? "\"" : ",\"";
    cut_ = !append_escaped(out_, word, kMaxArgumentBytes) || cut_;
    out_ += '"';
  }
  out_ += ']';
}

/// One item as a JSON object; `out_` is as before.
std::string Members::item(const Item& item) {
  const std::size_t begin = out_.size();
  // A path is a path and stays; everything else may have a credential in it.
  const auto shown = [&](const std::string& target) {
    if (item.operation == "env") {
      return target.substr(0, target.find('='));
    }
    return is_of_files(item) ? target : redact_text(target, salt_);
  };
  text("op", item.operation);
  text("requested", shown(item.requested), kMaxPathBytes);
  text("canonical", shown(item.canonical), kMaxPathBytes);
  text("to", shown(item.to), kMaxPathBytes);
  arguments(item.argv);
  number("dev", item.device);
  number("ino", item.inode);
  std::string object = "{" + out_.substr(std::min(begin + 1, out_.size())) + "}";
  out_.resize(begin);
  return object;
}

void Members::items(const std::vector<Item>& items) {
  if (items.empty()) {
    return;
  }
  std::string list;
  std::size_t shown = 0;
  for (const Item& one : items) {
    if (shown == kMaxItems) {
      break;
    }
    const std::string object = item(one);
    if (list.size() + object.size() + 1 > kMaxItemsBytes) {
      break;
    }
    list += (shown++ == 0 ? "" : ",") + object;
  }
  out_ += ",\"items\":[" + list + "]";
  if (shown < items.size()) {
    number("more_items", items.size() - shown);
    cut_ = true;
  }
}

void Members::box(const Box& box) {
  if (box.id.empty() && box.backend.empty() && box.strength.empty()) {
    return;
  }
  std::string before;
  before.swap(out_);
  text("id", box.id);
  text("backend", box.backend);
  text("strength", box.strength);
  out_ = before + ",\"box\":{" + out_.substr(1) + "}";
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kDecision:
      return "decision";
    case Kind::kAsk:
      return "ask";
    case Kind::kAnswer:
      return "answer";
    case Kind::kGrant:
      return "grant";
    case Kind::kRevoke:
      return "revoke";
    case Kind::kBoxStart:
      return "box.start";
    case Kind::kBoxExit:
      return "box.exit";
    case Kind::kViolation:
      return "violation";
    case Kind::kPolicyLoad:
      return "policy.load";
    case Kind::kMode:
      return "mode";
    case Kind::kHint:
      return "hint";
  }
  return "";
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNone:
      return "";
    case Verdict::kDeny:
      return "deny";
    case Verdict::kAsk:
      return "ask";
    case Verdict::kAllow:
      return "allow";
  }
  return "";
}

Fields render_fields(const Record& record, const Key& salt) {
  Members what(salt);
  what.text("kind", name_of(record.kind));
  what.text("session", record.session);
  what.text("agent", record.agent);
  what.items(record.items);
  what.text("decision", name_of(record.decision));
  what.text("branch", record.branch);
  what.text("rule", record.rule, kMaxRuleBytes);
  what.text("source", record.source);
  what.text("reason", record.reason);
  what.number("gen", record.policy_generation);
  what.text("grant", record.grant);
  what.text("mode", record.mode);
  what.box(record.box);
  what.text("by", record.by);
  Fields fields{what.take(), {}};
  append_member(fields.which, "req", record.request, kMaxNameBytes);
  if (record.duration_us) {
    fields.which += ",\"dur_us\":" + std::to_string(*record.duration_us);
  }
  return fields;
}

bool must_sync(const Record& record) {
  return record.kind != Kind::kDecision || record.decision != Verdict::kAllow ||
         record.items.empty() || !std::ranges::all_of(record.items, is_of_files);
}

bool may_fold(const Record& record) {
  return !must_sync(record) && std::ranges::all_of(record.items, is_read);
}

}  // namespace sandboxkit::audit
