#pragma once

/// Marks what the shared libraries export. Everything else is hidden.
#define SANDBOXKIT_API __attribute__((visibility("default")))
