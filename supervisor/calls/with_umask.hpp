// The caller's umask, for what callgate creates on its behalf.
#pragma once

#include <sys/stat.h>

#include <mutex>

#include "supervisor/calls/call.hpp"

namespace callgate::calls {

/// While it lives, this thread creates with the given umask.
///
/// Receiving threads unshare CLONE_FS, so each has its own umask. If a container's profile refuses that, the
/// umask and the working directory belong to the whole process. Then one thread at a time has them, restores
/// them at the end, and must not wait for others meanwhile.
class WithUmask {
public:
    WithUmask(WorkerBuffers& buffers, unsigned mask) {
        if (!buffers.shares_umask && buffers.umask == mask) return;
        static std::mutex one_at_a_time;
        if (buffers.shares_umask) lock_ = std::unique_lock(one_at_a_time);
        before_ = ::umask(static_cast<mode_t>(mask));
        buffers.umask = mask;
    }
    WithUmask(const WithUmask&) = delete;
    WithUmask& operator=(const WithUmask&) = delete;
    ~WithUmask() {
        if (lock_) ::umask(static_cast<mode_t>(before_));
    }

private:
    std::unique_lock<std::mutex> lock_;
    unsigned before_ = 0;
};

}  // namespace callgate::calls
