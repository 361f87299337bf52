#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sandboxkit::guest {

/// Every bound of the guest in one place. What a caller asks for past one of them is refused by
/// name.
inline constexpr std::size_t kMaxProcesses = 1'024;     ///< Running at one time.
inline constexpr std::size_t kMaxExitedProcesses = 64;  ///< Kept for late Connects.
inline constexpr std::chrono::milliseconds kExitedKept{30'000};
inline constexpr std::size_t kMaxListeners = 16;          ///< Streams on one process.
inline constexpr std::size_t kMaxArgvBytes = 128 * 1024;  ///< argv and environment together.
inline constexpr std::size_t kMaxArguments = 4'096;
inline constexpr std::size_t kMaxEnvEntries = 1'024;
inline constexpr std::size_t kMaxRequestBytes = 4 << 20;   ///< JSON of one request.
inline constexpr std::size_t kMaxCapturedBytes = 8 << 20;  ///< Of each stream of a whole /exec.
inline constexpr std::size_t kTailBytes = 64 * 1024;       ///< Kept while nobody listens.
inline constexpr std::size_t kMaxStdinBuffered = 4 << 20;
inline constexpr std::size_t kStdinLowWater = 64 * 1024;
inline constexpr std::size_t kPipeReadBytes = 32 * 1024;
inline constexpr std::size_t kFilePieceBytes = 256 * 1024;
inline constexpr std::size_t kFileTurnBytes = 1 << 20;  ///< Then others get their turn.
inline constexpr std::size_t kMaxListEntries = 10'000;
inline constexpr int kMaxListDepth = 32;
inline constexpr int kMaxTreeDepth = 200;
inline constexpr std::size_t kMaxPathBytes = 4'095;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxMultipartHeadBytes = 8 * 1024;
inline constexpr std::size_t kMaxMultipartParts = 1'000;
inline constexpr std::size_t kMaxAccountFileBytes = 1 << 20;  ///< /etc/passwd, /etc/group.
inline constexpr std::size_t kMaxConnections = 1'024;
inline constexpr unsigned kMaxTerminalSide = 10'000;
inline constexpr std::int64_t kMaxTimeoutSeconds = 30 * 24 * 3'600;

inline constexpr std::chrono::milliseconds kExecPing{15'000};
inline constexpr std::chrono::seconds kDefaultKeepalive{90};
inline constexpr std::chrono::milliseconds kPortConnectTimeout{5'000};
/// A terminal's last bytes pass through a kernel work queue; its end comes within this.
inline constexpr std::chrono::milliseconds kTerminalDrain{500};
inline constexpr std::chrono::milliseconds kStopGrace{1'000};
inline constexpr std::chrono::milliseconds kStopCheck{20};

inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What E2B's SDKs look at to choose among their features.
inline constexpr const char* kEnvdVersion = "0.6.13";

}  // namespace sandboxkit::guest
