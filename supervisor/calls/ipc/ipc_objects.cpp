#include "supervisor/calls/ipc/ipc_objects.hpp"

#include <algorithm>
#include <cstring>

namespace callgate::calls {

void OwnIds::add(int id) {
    const std::uint32_t count = list_.count.load();
    list_.values[count].store(id);
    list_.count.store(count + 1);
    positions_[id] = count;
    ++made_;
}

void OwnIds::remove(int id) {
    const auto found = positions_.find(id);
    if (found == positions_.end()) return;
    // The last one takes its place. For a moment it is there twice, and never missing.
    const std::uint32_t last = list_.count.load() - 1;
    const int moved = list_.values[last].load();
    list_.values[found->second].store(moved);
    positions_[moved] = found->second;
    list_.count.store(last);
    positions_.erase(id);
}

std::uint64_t OwnQueues::inode(std::string_view name) const {
    for (const auto& entry : names_) {
        if (entry.used.load() && name == entry.text.data()) return entry.inode.load();
    }
    return 0;
}

bool OwnQueues::full() const {
    return std::ranges::all_of(names_, [](const auto& entry) { return entry.used.load(); });
}

void OwnQueues::add(std::string_view name, std::uint64_t inode) {
    remove(name);
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
        if (entry.used.load() && name == entry.text.data()) entry.used.store(false);
    }
}

}  // namespace callgate::calls
