#pragma once

#include "box/launch.h"

namespace sandboxkit::box {

// Parts of the set-up that a box's first process and its broker share. Between clone and exec: no
// lock and no memory. Each ends the process when it cannot be done.

/// The command's descriptors get their numbers, and everything else of the host is closed: what a
/// caller left open does not reach into the box.
void take_descriptors(Launch& launch);

/// The caller's own user and group, and no other.
void map_user(const Launch& launch);

void reset_signals();

/// False with errno when it cannot be sent.
bool send_descriptor(int socket, char byte, int descriptor);

/// Waits for one; -1 when something else comes.
int receive_descriptor(int socket, char byte);

}  // namespace sandboxkit::box
