#include "sandboxkit/terminal_prompt.h"

#include "base/text.h"
#include "gate/shown_text.h"
#include "io/fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr int kMaxTries = 5;
constexpr std::size_t kMaxLineBytes = 256;
/// As much as a terminal takes that says it takes something.
constexpr std::size_t kChunkBytes = 256;
constexpr std::size_t kPasswdBytes = 16 * 1024;

struct Letter {
  char key;
  PromptChoice choice;
  bool for_sub_agents;
  const char* words;
};
constexpr std::array kLetters = {
    Letter{'o', PromptChoice::kOnce, false, "allow this once"},
    Letter{'s', PromptChoice::kSession, false, "allow for this session"},
    Letter{'i', PromptChoice::kSession, true, "allow for this session and the agents it starts"},
    Letter{'a', PromptChoice::kAlwaysThis, false, "always allow exactly this, in this tree"},
    Letter{'f', PromptChoice::kAlwaysFolder, false, "always allow for the whole folder"},
    Letter{'n', PromptChoice::kNo, false, "no"},
    Letter{'x', PromptChoice::kNoForSession, false, "no, and do not ask again in this session"},
    Letter{'c', PromptChoice::kContinue, false, "let it go on"},
    Letter{'k', PromptChoice::kStop, false, "stop it: refuse everything from now on"},
};

const PromptOffer* offer_of(const Prompt& prompt, PromptChoice choice) {
  const auto found = std::ranges::find(prompt.offers, choice, &PromptOffer::choice);
  return found != prompt.offers.end() ? &*found : nullptr;
}

/// Prompts may come from far away: nothing that acts on a terminal passes.
std::string safe(const std::string& text) {
  return gate::is_shown_text(text) ? text : gate::shown_text(text);
}

std::string line(const char* label, const std::string& text) {
  return text.empty() ? "" : "  " + std::string(label) + safe(text) + "\n";
}

std::string body_of(const Prompt& prompt) {
  if (prompt.kind == PromptKind::kBudget) {
    return "The agent " + safe(prompt.agent) +
           " asks more often than you can read. May it go on?\n" +
           line("session: ", prompt.session) + line("tree:    ", prompt.tree);
  }
  std::string text = "The agent " + safe(prompt.agent) + " asks for:\n";
  for (const PromptAsk& ask : prompt.asks) {
    text += "  " + std::string(name_of(ask.operation)) + "  " + safe(ask.text) +
            (ask.to.empty() ? "" : "  ->  " + safe(ask.to)) + "\n";
  }
  text += "What that is:\n";
  for (const PromptItem& item : prompt.items) {
    text += std::string(item.answer == GateAnswer::kAsk ? "? " : "  ") + name_of(item.operation) +
            "  " + safe(item.name) + "  (" + safe(item.reason) + ")\n";
    for (const std::string& via : item.via) {
      text += line("     via ", via);
    }
  }
  return text + line("in:      ", prompt.cwd) + line("tree:    ", prompt.tree) +
         line("the agent's own words, which may lie: ", prompt.untrusted_why);
}

std::string text_of(const Prompt& prompt) {
  std::string text = "\n--- sandboxkit: a question of the permission gate ---\n" + body_of(prompt);
  for (const Letter& letter : kLetters) {
    if (const PromptOffer* offer = offer_of(prompt, letter.choice)) {
      text += "  [" + std::string(1, letter.key) + "] " + letter.words + "\n";
      for (const std::string& grant : offer->grants) {
        text += line("      ", grant);
      }
    }
  }
  return text + "Your answer: ";
}

std::string who() {
  std::array<char, kPasswdBytes> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found);
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string name = found != nullptr ? entry.pw_name : std::to_string(getuid());
  return gate::shown_text("tty:" + name + "@" + host.data());
}

Error gone(const char* why) { return Error{ErrorCode::kUnavailable, why, "no_terminal"}; }

/// Waits on the terminal, woken by the end of its prompt.
class Line {
 public:
  Line(TerminalDescriptors terminal, Deadline deadline, std::stop_token stop)
      : terminal_(terminal),
        deadline_(deadline),
        stop_(std::move(stop)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        waker_(stop_, Wake{wake_.get()}) {}

  Status write(std::string_view bytes) {
    while (!bytes.empty()) {
      if (auto ready = wait(terminal_.out, POLLOUT); !ready) {
        return ready;
      }
      const ssize_t written =
          ::write(terminal_.out, bytes.data(), std::min(bytes.size(), kChunkBytes));
      if (written < 0 && errno != EAGAIN && errno != EINTR) {
        return gone("the terminal cannot be written");
      }
      bytes.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
    }
    return {};
  }

  /// What stands on one line; of one that is too long nothing.
  Result<std::string> read() {
    std::string text;
    while (true) {
      if (auto ready = wait(terminal_.in, POLLIN); !ready) {
        return ready.error();
      }
      std::array<char, kMaxLineBytes> bytes{};
      const ssize_t size = ::read(terminal_.in, bytes.data(), bytes.size());
      if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        return gone("the terminal is closed");
      }
      text.append(bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
      if (const auto end = text.find('\n'); end != std::string::npos) {
        return end <= kMaxLineBytes ? text.substr(0, end) : std::string();
      }
      // Of an endless line the last part is enough to find its end.
      text = text.size() > kMaxLineBytes ? std::string(kMaxLineBytes + 1, ' ') : text;
    }
  }

 private:
  struct Wake {
    int fd;
    void operator()() const noexcept { eventfd_write(fd, 1); }
  };

  Status wait(int fd, short events) {
    if (!wake_) {
      return io::error_from_errno("eventfd", errno);
    }
    // Reading from another job's terminal would stop this whole process.
    if (isatty(fd) == 1 && tcgetsid(fd) == getsid(0) && tcgetpgrp(fd) != getpgrp()) {
      return gone("this process is not in the terminal's foreground");
    }
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          deadline_ - std::chrono::steady_clock::now());
      if (stop_.stop_requested()) {
        return Error{ErrorCode::kCancelled, "the prompt ended"};
      }
      if (left.count() <= 0) {
        return Error{ErrorCode::kDeadlineExceeded, "nobody answered in time"};
      }
      std::array<pollfd, 2> waiting{{{fd, events, 0}, {wake_.get(), POLLIN, 0}}};
      const auto bounded = std::min<std::int64_t>(left.count(), INT_MAX);
      const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(bounded));
      if (ready > 0 && waiting[0].revents != 0 && waiting[1].revents == 0) {
        return {};
      }
      if (ready < 0 && errno != EINTR) {
        return io::error_from_errno("poll", errno);
      }
    }
  }

  const TerminalDescriptors terminal_;
  const Deadline deadline_;
  const std::stop_token stop_;
  const io::Fd wake_;
  const std::stop_callback<Wake> waker_;
};

std::optional<PromptReply> reply_of(const Prompt& prompt, const std::string& typed) {
  const std::string_view text = trim(typed);
  for (const Letter& letter : kLetters) {
    if (text == std::string_view(&letter.key, 1) && offer_of(prompt, letter.choice) != nullptr) {
      return PromptReply{.id = prompt.id,
                         .digest = prompt.digest,
                         .choice = letter.choice,
                         .for_sub_agents = letter.for_sub_agents,
                         .by = who()};
    }
  }
  return std::nullopt;
}

class TerminalPrompt final : public PromptHandler {
 public:
  explicit TerminalPrompt(TerminalDescriptors terminal, io::Fd own = {})
      : own_(std::move(own)), terminal_(terminal) {}

  Result<PromptReply> ask(const Prompt& prompt, Deadline deadline, std::stop_token stop) override {
    if (!take_terminal(deadline)) {
      return Error{ErrorCode::kDeadlineExceeded, "other questions took all the time"};
    }
    Line line(terminal_, deadline, std::move(stop));
    auto reply = ask_on(line, prompt);
    give_terminal();
    if (!reply && reply.error().code == ErrorCode::kDeadlineExceeded) {
      say_unanswered();
    }
    return reply;
  }

 private:
  // No std::timed_mutex: the thread sanitizer of clang 14 does not see how it is taken.
  bool take_terminal(Deadline deadline) {
    std::unique_lock lock(mutex_);
    if (!is_free_.wait_until(lock, deadline, [this] { return !taken_; })) {
      return false;
    }
    taken_ = true;
    return true;
  }
  void give_terminal() {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    is_free_.notify_one();
  }

  Result<PromptReply> ask_on(Line& line, const Prompt& prompt) const {
    // Keys from before are no answer to what was not seen yet.
    tcflush(terminal_.in, TCIFLUSH);
    std::string text = text_of(prompt);
    for (int i = 0; i < kMaxTries; ++i) {
      if (auto shown = line.write(text); !shown) {
        return shown.error();
      }
      const auto typed = line.read();
      if (!typed) {
        return typed.error();
      }
      if (auto reply = reply_of(prompt, *typed)) {
        return std::move(*reply);
      }
      text = "That is none of the letters above. Your answer: ";
    }
    return gone("no answer was one of those that were offered");
  }

  void say_unanswered() const {
    constexpr std::string_view kText = "\nNobody answered in time: it is denied.\n";
    pollfd ready{terminal_.out, POLLOUT, 0};
    // Only where it does not wait: the audit log says it in any case.
    if (poll(&ready, 1, 0) == 1 && ::write(terminal_.out, kText.data(), kText.size()) < 0) {
      return;
    }
  }

  const io::Fd own_;
  const TerminalDescriptors terminal_;
  std::mutex mutex_;
  std::condition_variable is_free_;
  bool taken_ = false;
};

}  // namespace

std::unique_ptr<PromptHandler> terminal_prompt_handler(TerminalDescriptors terminal) {
  return std::make_unique<TerminalPrompt>(terminal);
}

Result<std::unique_ptr<PromptHandler>> controlling_terminal_handler() {
  io::Fd tty(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!tty) {
    return gone("there is no terminal to ask on");
  }
  const TerminalDescriptors terminal{tty.get(), tty.get()};
  return std::unique_ptr<PromptHandler>(std::make_unique<TerminalPrompt>(terminal, std::move(tty)));
}

}  // namespace sandboxkit
