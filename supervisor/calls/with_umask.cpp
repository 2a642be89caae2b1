#include "supervisor/calls/with_umask.hpp"

#include <sys/stat.h>

namespace callgate::calls {

WithUmask::WithUmask(WorkerBuffers& buffers, unsigned mask) {
    if (!buffers.shares_umask && buffers.umask == mask) return;
    static std::mutex one_at_a_time;
    if (buffers.shares_umask) lock_ = std::unique_lock(one_at_a_time);
    before_ = ::umask(static_cast<mode_t>(mask));
    buffers.umask = mask;
}

WithUmask::~WithUmask() {
    if (lock_) ::umask(static_cast<mode_t>(before_));
}

}  // namespace callgate::calls
