// Renames and links from one directory to another where Landlock forbids them in every domain (ABI 1).
//
// From ABI 2 on, the base domain of callgate's own threads allows them. Before, no domain can. So a thread
// that has entered no domain performs just these, on pinned directories and by names of one component. It
// resolves nothing, so an attacker who chose the names gains nothing from its being unconfined. Its identity
// and its capabilities are those of the thread that it acts for.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "supervisor/kernel/acting_identity.hpp"

namespace callgate::calls {

class CrossDirectoryRename {
public:
    /// Starts the thread. Make it before the base domain is entered. Throws std::system_error.
    explicit CrossDirectoryRename(CapabilitySet keep_capabilities);
    CrossDirectoryRename(const CrossDirectoryRename&) = delete;
    CrossDirectoryRename& operator=(const CrossDirectoryRename&) = delete;
    ~CrossDirectoryRename();

    /// Runs `act` on that thread: 0, or -1 with errno, which becomes the caller's. Any thread; one after the
    /// other.
    int perform(const std::function<int()>& act);

private:
    void run(CapabilitySet keep_capabilities);

    std::mutex turn_, mutex_;
    std::condition_variable changed_;
    const std::function<int()>* act_ = nullptr;
    const kernel::Credentials* as_ = nullptr;  // null: callgate's own
    int result_ = 0, error_ = 0;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace callgate::calls
