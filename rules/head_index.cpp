#include "rules/head_index.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace callgate::rules {

void HeadIndex::add(std::uint32_t rule, const Glob& glob) {
    const std::vector<Glob::Branch>& branches = glob.branches();
    for (std::uint32_t index = 0; index < branches.size(); ++index) {
        const Glob::Branch& branch = branches[index];
        const Entry entry{rule, index, &glob};
        if (glob.kind() == GlobKind::text && !branch.literal) {
            // `matches` looks at every branch by itself.
            if (texts_.empty() || texts_.back().glob != &glob) texts_.push_back(entry);
        } else {
            pending_.push_back({branch.head, branch.literal, entry});
        }
    }
}

void HeadIndex::freeze() {
    std::stable_sort(pending_.begin(), pending_.end(), [](const Pending& one, const Pending& other) {
        return std::tuple(one.head, !one.literal) < std::tuple(other.head, !other.literal);
    });
    slots_.assign(std::bit_ceil(pending_.size() * 2 + 2), Slot{});
    for (std::size_t first = 0; first < pending_.size();) {
        Slot slot;
        slot.head = pending_[first].head;
        slot.hash = hash_of(slot.head);
        slot.exact = slot.beneath = static_cast<std::uint32_t>(entries_.size());
        for (; first < pending_.size() && pending_[first].head == slot.head; ++first) {
            entries_.push_back(pending_[first].entry);
            if (pending_[first].literal) ++slot.beneath;
        }
        slot.end = static_cast<std::uint32_t>(entries_.size());
        std::size_t place = first_place(slot.hash);
        while (slots_[place].end != 0) place = (place + 1) & (slots_.size() - 1);
        slots_[place] = slot;
    }
    pending_.clear();
    pending_.shrink_to_fit();
}

const HeadIndex::Slot* HeadIndex::find(std::uint64_t hash, std::string_view head) const {
    for (std::size_t place = first_place(hash);; place = (place + 1) & (slots_.size() - 1)) {
        const Slot& slot = slots_[place];
        if (slot.end == 0) return nullptr;
        if (slot.hash == hash && slot.head == head) return &slot;
    }
}

}  // namespace callgate::rules
