#include "supervisor/calls/files/cross_directory_rename.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <cerrno>

#include "base/process/capabilities.hpp"

namespace callgate::calls {

CrossDirectoryRename::CrossDirectoryRename(CapabilitySet keep_capabilities) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // other threads handle signals
    thread_ = std::thread([this, keep_capabilities] { run(keep_capabilities); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CrossDirectoryRename::~CrossDirectoryRename() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

int CrossDirectoryRename::perform(const std::function<int()>& act) {
    const std::lock_guard turn(turn_);
    std::unique_lock lock(mutex_);
    act_ = &act;
    as_ = kernel::taken_identity();
    changed_.notify_all();
    changed_.wait(lock, [this] { return act_ == nullptr; });
    errno = error_;
    return result_;
}

void CrossDirectoryRename::run(CapabilitySet keep_capabilities) {
    ::prctl(PR_SET_NAME, "callgate-move");
    const bool usable = keep_capabilities != 0 ? kernel::begin_acting_with(keep_capabilities).has_value()
                                               : drop_capabilities().has_value();
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return act_ != nullptr || ending_; });
        if (ending_) return;
        errno = EXDEV;  // Landlock's answer
        result_ = -1;
        if (usable && as_ == nullptr) result_ = (*act_)();
        if (usable && as_ != nullptr) {
            const kernel::TakenIdentity identity(*as_);
            if (identity.taken()) result_ = (*act_)();
            error_ = errno;
        }
        error_ = errno;
        act_ = nullptr;
        changed_.notify_all();
    }
}

}  // namespace callgate::calls
