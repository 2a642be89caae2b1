// Usage of a run's whole tree, as /proc shows it: processes, memory, processor time, written bytes.
//
// The target controls how many processes there are, how short they live, and whether their deaths are waited
// for. It also chooses the place of its bytes: mapped memory, memory files (memfd_create(2)), System V
// segments, files in /dev/shm, unlinked files. Each is counted once, mapped or not.
//
// Some files can be listed nowhere: those in flight (SCM_RIGHTS, unix(7)), and those of a process that is not
// dumpable (prctl(2)). Of a file that is mapped in part the kernel does not say the size. While there are
// such, and no descriptor of them, all that the host gained since the start counts. A process that lives and
// dies between two readings is not seen if its parent does not wait for it (docs/limits.md).
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "agent/created_ipc.hpp"
#include "base/process/processes.hpp"

namespace callgate::limits {

struct TreeUsage {
    std::uint64_t tasks = 0;           // threads of living processes, as the kernel counts them
    std::uint64_t resident = 0;        // bytes; a shared page counts in each process
    std::chrono::milliseconds cpu{0};  // of all processes that were seen
};

/// Bytes that no map of a process shows.
struct HiddenBytes {
    std::uint64_t memory = 0;   // in memory files and System V segments, mapped or not
    std::uint64_t unnamed = 0;  // in unlinked files on the given devices
    bool unlisted = false;      // there may be more such files than can be listed
};

/// Names beneath the run's own directories in /dev/shm.
struct SharedNames {
    std::uint64_t bytes = 0;
    bool whole = true;  // else there may be more than could be listed
};

/// Reads /proc, and remembers processes that have ended. Used by one thread.
class TreeMeter {
public:
    /// Measures the tree beneath `guardian`; what the run and nested runs made outlives the meter.
    TreeMeter(pid_t guardian, const agent::CreatedIpc& made, const agent::CreatedIpc& by_nested);

    /// Reads /proc once. The other functions concern the processes that it saw.
    TreeUsage read();
    /// Bytes of memory with the hidden ones; shared pages count by share (Pss of smaps_rollup, proc(5)). A
    /// process whose maps cannot be read counts with its resident bytes. `gained`: bytes of shared memory
    /// that the host has more than at the start. The largest processes come first, and more than `enough` is
    /// not looked for: the tree grows meanwhile.
    [[nodiscard]] std::uint64_t memory(std::uint64_t gained, std::uint64_t enough = UINT64_MAX) const;
    /// The living processes of the last reading.
    [[nodiscard]] std::vector<Process> living() const;
    /// Bytes that living processes and those that ended since have written (wchar of /proc/PID/io).
    std::uint64_t written();
    /// Bytes of the names beneath the run's own directories in /dev/shm. callgate makes them, so the run's
    /// control group does not have them.
    [[nodiscard]] SharedNames shared_names() const;
    /// Unlinked files on these devices; memory for no devices.
    [[nodiscard]] HiddenBytes hidden(const std::vector<dev_t>& devices) const;

private:
    using Identity = std::pair<pid_t, std::uint64_t>;
    struct Seen;
    /// Whether this process still has its parent's memory (vfork(2)), which counts there.
    [[nodiscard]] bool borrows(pid_t pid, const Seen& seen) const;
    struct Seen {
        std::uint64_t ticks = 0, resident = 0, written = 0, threads = 1;
        bool current = false, alive = false;
        pid_t parent = 0;
        pid_t thread = 0;  // the process's first thread that lives; its own number mostly
    };
    pid_t guardian_;
    const std::array<const agent::CreatedIpc*, 2> made_;
    const std::uint64_t named_at_start_;  // bytes in /dev/shm
    std::map<Identity, Seen> seen_;
    std::uint64_t ended_ticks_ = 0, ended_written_ = 0;
    std::uint64_t max_ticks_ = 0;
};

/// Bytes of shared memory on the whole host (Shmem of /proc/meminfo). It is cheap to read, and shows whether
/// there can be memory files to look for.
[[nodiscard]] std::uint64_t shared_memory_of_host();

/// Bytes of the whole host that are not copies of files: those of processes, and shared memory, swapped or
/// not. As cheap to read.
[[nodiscard]] std::uint64_t memory_of_host();

}  // namespace callgate::limits
