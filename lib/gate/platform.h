#pragma once

namespace sandboxkit::gate {

// What every program reads. Source: design of the permission gate, 4.2.
inline constexpr const char* kPlatform[] = {
    "/usr",          "/bin",          "/sbin",
    "/lib",          "/lib32",        "/lib64",
    "/libx32",       "/opt",          "/nix/store",
    "/etc",          "/proc/self",    "/proc/thread-self",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
    "/proc/loadavg", "/proc/version", "/proc/uptime",
    "/System",       "/Library",      "/sys/devices/system/cpu",
    "/dev/random",   "/dev/urandom",  "/dev/stdin",
};
inline constexpr const char* kPlatformWritten[] = {"/dev/null", "/dev/zero", "/dev/full",
                                                   "/dev/stdout", "/dev/stderr"};

}  // namespace sandboxkit::gate
