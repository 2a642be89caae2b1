#include "supervisor/calls/ipc/ipc_objects.hpp"

#include <algorithm>
#include <cstring>

#include "base/test_switch.hpp"

namespace callgate::calls {

bool OwnIds::exhausted(std::uint32_t semaphores) const {
    const bool full = made_ >= agent::CreatedIpc::max_ids ||
                      (semaphores_ + semaphores > max_semaphores && check_enabled("semaphores"));
    if (full || also_ == nullptr) return full;
    const auto held = also_->lock();
    return also_->exhausted(semaphores);
}

void OwnIds::add(int id, std::uint32_t semaphores) {
    if (also_ != nullptr) {
        const auto held = also_->lock();
        also_->add(id, semaphores);
    }
    const std::uint32_t count = list_.count.load();
    if (count == agent::CreatedIpc::max_ids) return;  // nested runs have made the last ones at once
    list_.values[count].store(id);
    list_.count.store(count + 1);
    own_[id] = {count, semaphores};
    semaphores_ += semaphores;
    ++made_;
}

void OwnIds::remove(int id) {
    if (also_ != nullptr) {
        const auto held = also_->lock();
        also_->remove(id);
    }
    const auto found = own_.find(id);
    if (found == own_.end()) return;
    // The last one takes its place. For a moment it is there twice, and never missing.
    const std::uint32_t last = list_.count.load() - 1, position = found->second.position;
    const int moved = list_.values[last].load();
    list_.values[position].store(moved);
    own_[moved].position = position;
    list_.count.store(last);
    semaphores_ -= found->second.semaphores;
    own_.erase(found);
}

std::uint64_t OwnQueues::inode(std::string_view name) const {
    for (const auto& entry : names_) {
        if (entry.used.load() && name == entry.text.data()) return entry.inode.load();
    }
    return 0;
}

bool OwnQueues::full() const {
    if (also_ != nullptr) {
        const auto held = also_->lock();
        if (also_->full()) return true;
    }
    return std::ranges::all_of(names_, [](const auto& entry) { return entry.used.load(); });
}

void OwnQueues::add(std::string_view name, std::uint64_t inode) {
    remove(name);
    if (also_ != nullptr) {
        const auto held = also_->lock();
        also_->add(name, inode);
    }
    any_.store(true);
    for (auto& entry : names_) {
        if (entry.used.load()) continue;
        std::memcpy(entry.text.data(), name.data(), name.size());
        entry.text[name.size()] = 0;
        entry.inode.store(inode);
        entry.used.store(true);
        return;
    }
}

void OwnQueues::remove(std::string_view name) {
    for (auto& entry : names_) {
        if (!entry.used.load() || name != entry.text.data()) continue;
        entry.used.store(false);
        if (also_ == nullptr) continue;
        const auto held = also_->lock();
        also_->remove(name, entry.inode.load());
    }
}

/// Another nested run may have made a queue of this name meanwhile.
void OwnQueues::remove(std::string_view name, std::uint64_t inode) {
    for (auto& entry : names_)
        if (entry.used.load() && name == entry.text.data() && entry.inode.load() == inode)
            entry.used.store(false);
}

}  // namespace callgate::calls
