// What the whole tree of a run uses, as /proc shows it: processes, memory, processor time, what it wrote.
//
// The target controls how many processes there are, how short they live, whether their deaths are waited for,
// and where it keeps its bytes: in memory that it maps, in memory files (memfd_create(2)) that it does not
// map, in System V segments, in files without a name. Each is counted once. What lives and dies between two
// readings without being waited for (a parent that ignores SIGCHLD) is not seen: docs/limits.md says so.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "agent/created_ipc.hpp"
#include "base/process/processes.hpp"

namespace callgate::limits {

struct TreeUsage {
    std::uint64_t tasks = 0;           // threads of living processes, as the kernel's own limits count
    std::uint64_t resident = 0;        // bytes, what is shared counted in each process
    std::chrono::milliseconds cpu{0};  // all that ever ran, as far as it was seen
};

/// Bytes that no map of a process shows.
struct HiddenBytes {
    std::uint64_t memory = 0;   // in memory files and System V segments, mapped or not
    std::uint64_t unnamed = 0;  // in deleted files on the devices that were asked for
};

/// One thread only. Reads files of /proc, and keeps what has ended.
class TreeMeter {
public:
    /// The tree beneath `guardian`; `made` outlives the meter.
    TreeMeter(pid_t guardian, const agent::CreatedIpc& made);

    /// One reading of /proc. Later calls are about the processes that it saw.
    TreeUsage read();
    /// Bytes of memory, shared pages by share (Pss of smaps_rollup, proc(5)), and those that are hidden. Of a
    /// process whose maps cannot be read the resident bytes count.
    [[nodiscard]] std::uint64_t memory() const;
    /// Bytes that living processes and those that ended since have written (wchar of /proc/PID/io).
    std::uint64_t written();
    /// `devices`: of the directories whose deleted files count.
    [[nodiscard]] HiddenBytes hidden(const std::vector<dev_t>& devices) const;

private:
    using Identity = std::pair<pid_t, std::uint64_t>;
    struct Seen {
        std::uint64_t ticks = 0, resident = 0, written = 0;
        bool current = false;
    };
    pid_t guardian_;
    const agent::CreatedIpc& made_;
    std::map<Identity, Seen> seen_;
    std::uint64_t ended_ticks_ = 0, ended_written_ = 0;
    std::uint64_t max_ticks_ = 0;
};

/// Bytes of shared memory on the whole machine (Shmem of /proc/meminfo): cheap, so that memory files are
/// looked for only where there can be some.
[[nodiscard]] std::uint64_t shared_memory_of_machine();

}  // namespace callgate::limits
