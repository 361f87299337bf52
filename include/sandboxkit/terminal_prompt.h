#pragma once

#include "sandboxkit/gate_prompt.h"

#include <memory>

namespace sandboxkit {

/// Asks on a terminal: shows the prompt, and takes one line with a letter.
///
/// What was typed before a prompt is shown answers nothing. Prompts of several threads are asked
/// one after the other, each until its own deadline. The terminal's settings stay as they are.
/// Errors of `ask`: kUnavailable for a terminal that is gone, that this process is not in the
/// foreground of, or on which nobody gave an answer that was offered in five tries.
///
/// `in` and `out` are descriptors of one terminal, and outlive the handler.
struct TerminalDescriptors {
  int in;
  int out;
};
SANDBOXKIT_API std::unique_ptr<PromptHandler> terminal_prompt_handler(TerminalDescriptors terminal);

/// The same on the process's controlling terminal (`/dev/tty`). Errors: kUnavailable without one.
SANDBOXKIT_API Result<std::unique_ptr<PromptHandler>> controlling_terminal_handler();

}  // namespace sandboxkit
